"""Experiments over the simulated world: run, compare, replay, ask why, and show it on a page."""
