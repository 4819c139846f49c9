"""The operator: observe, let the brain decide, record, act."""
