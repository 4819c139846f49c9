"""Student's t: how far off a figure may be whose spread is known from few points only."""

NINETIETH = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372)
"""Its 90th percentile by degrees of freedom, from 1: both tails leave 80 % between them."""

NINETIETH_OF_MANY = 1.32


def ninetieth(freedom: int) -> float:
    """The 90th percentile with so many degrees of freedom, 1 or more."""
    return NINETIETH[freedom - 1] if freedom <= len(NINETIETH) else NINETIETH_OF_MANY
