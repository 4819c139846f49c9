"""The custom resources as typed models, and the manifests that follow from them."""
