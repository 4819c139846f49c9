"""What a person with a kubeconfig can see of a cluster, as frozen values.

Everything comes from the API server and nothing from the operator, so the command line needs no
rights but the reader's own and works while the operator is down. Lists are read page by page.
"""
