"""What every real world needs to bring itself in line with the brain.

The local world and the Kubernetes world both act on levels: whenever anything about a job may have
changed, they look at it again and do the next thing. What they look at and what they do differs;
what the brain believes of a job, and being looked at again later, is the same, and stands here. The
room knows the brain and no world, and is changed only for the sake of both.
"""
