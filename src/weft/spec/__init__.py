"""What a person writes, and what becomes of it: the job file, its quantities, a recipe's name.

One job file serves every world, so reading it belongs to none of them.
"""
