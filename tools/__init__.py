"""What the project needs around its code, and nothing that Weft itself imports."""
