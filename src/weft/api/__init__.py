"""The door for programs: one HTTP API in front of any world that can answer it.

`backend` says what a world must be able to answer; `app` makes routes of it; `peer` tells who asks
over a Unix socket; `client` asks, with the standard library alone. A world imports this room and
hands itself over; this room imports no world.
"""
