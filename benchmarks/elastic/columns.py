"""Columns of the contest: every recipe, the elastic ones with placement in all its forms.

A recipe decides who goes first and how wide. Whether seats are packed, whether a job rather begins
narrow than spread, and whether it may be restarted for its own good, can be said to any elastic
recipe; so each of them enters with all eight answers, and none wins by a switch that the others
were not given. Recipes of fixed widths enter as they are.
"""

from dataclasses import dataclass
from itertools import product

OWN_RECIPE = "weave"
ELASTIC = ("even", "maxmin", "optimus", "afs-l", "afs-p", "aiturbo", OWN_RECIPE)
FIXED = ("fifo", "backfill", "srtf", "srsf", "las", "tiresias", "gittins", "fair")
SWITCHES = ("packed", "compact", "restarts")
AS_IT_IS = "as it is"
PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    """A recipe in one configuration."""

    recipe: str
    configuration: str = AS_IT_IS

    @property
    def parameters(self) -> str:
        """As a recipe's text takes them."""
        if self.configuration == AS_IT_IS:
            return ""
        said = self.configuration.split("+")
        return ", ".join(f"{switch}={switch in said}" for switch in SWITCHES)

    @property
    def label(self) -> str:
        plain = self.configuration in (AS_IT_IS, PLAIN)
        return self.recipe if plain else f"{self.recipe} {self.configuration}"


CONFIGURATIONS = tuple(
    "+".join(switch for switch, on in zip(SWITCHES, choice, strict=True) if on) or PLAIN
    for choice in product((False, True), repeat=len(SWITCHES))
)
OWN = Column(OWN_RECIPE)
"""As `weave` is unless told otherwise: on whole nodes, which is a fourth answer to `packed`."""

COLUMNS = (
    OWN,
    *(Column(recipe, configuration) for recipe in ELASTIC for configuration in CONFIGURATIONS),
    *(Column(recipe) for recipe in FIXED),
)
