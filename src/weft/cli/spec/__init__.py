"""`weft spec`: job files, before they go anywhere."""
