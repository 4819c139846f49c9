"""Messages to people and machines outside: who is told, in which words, and by which way.

A world puts a notice into the outbox and goes on at once. Whoever is to be told is named by the
job's file or by rules of whoever runs the world, who also keeps the addresses and secrets.
"""
