"""The terminal: one small file per command, each loaded when it is called and not before.

`main` is the console script, `front` lists all commands, `root` and `lazy` load them, `page`
documents them, `exit_status` and `options` are
what they share. Each subject has a room: `jobs`, `overview`, `lab`, and one for every group of
commands. `worlds` is the way to whoever answers, `terminal` the way to whoever reads.
"""
