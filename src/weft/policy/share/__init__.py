"""In whose company."""
