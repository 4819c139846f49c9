"""The terminal: one small file per command, each loaded when it is called and not before.

`main` lists all commands, `lazy` loads them, `page` documents them, `exit_status` and `options` are
what they share. Each subject has a room: `jobs`, `overview`, `lab`, and one for every group of
commands. `worlds` is the way to whoever answers, `terminal` the way to whoever reads.
"""
