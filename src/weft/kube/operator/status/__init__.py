"""What people read: the status of jobs and queues, reports of why jobs wait, Events and metrics.

Fields, conditions, the reasons of Events and the names of metrics are a contract with users and
with other versions of the operator: some may be added, and none is renamed. Nothing here decides.
"""
