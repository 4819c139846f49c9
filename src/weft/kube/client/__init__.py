"""Talking to a Kubernetes API server: raw requests, one cache per kind, one lease."""
