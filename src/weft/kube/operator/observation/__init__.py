"""What the operator keeps of the objects that it watches: the few fields it uses, and nothing else.

A pod is 3–10 kB on the wire and some 50,000 of them may exist; what is kept is a flat value under
1 kB. Two observations that are equal but for their version mean that nothing of interest changed,
which spares the brain the heartbeats of every node. Observed values are frozen and read nothing
later: whatever cannot be read is found when the object comes in, and costs that object alone.
"""
