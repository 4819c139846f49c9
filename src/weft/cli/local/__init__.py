"""`weft local`: the daemon of a world on this machine, started and stopped."""
