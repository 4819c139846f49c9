"""Widths, plans and cores chosen together: what each job could run as, and who gets it."""
