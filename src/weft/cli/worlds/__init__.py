"""The worlds that commands speak to, and the way there.

`world` says what a command asks of any world, `machine` and `cluster` answer it, `contexts` and
`place` choose between them. No command lives here, and nothing here prints but which world it is.
"""
