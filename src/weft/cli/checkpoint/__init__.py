"""`weft checkpoint`: the state of trainings as files, Weft's own and those of others."""
