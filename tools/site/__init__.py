"""The documentation site, built from the documents as they stand."""
