"""The state of a training program by name: what is saved, what newcomers get, what is loaded.

What a snapshot says of itself is read by later versions (`weft.agent.checkpoint`): names, facts and
layouts are a format.
"""
