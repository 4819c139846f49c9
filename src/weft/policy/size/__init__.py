"""How wide."""
