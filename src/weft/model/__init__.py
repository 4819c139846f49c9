"""The vocabulary: frozen values that every other room speaks in.

Nothing here acts, reads a clock or touches a file. Ids are distinct types, units stand in
names, and a value is changed by making another one.
"""
