"""The terminal: one small file per command, each loaded when it is called and not before."""
