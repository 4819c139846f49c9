"""`docs/recipe-parameters.md`, from the recipes: `python -m weft.spec.recipe_page > …`."""

import sys

from weft.policy.recipes import RECIPES
from weft.spec.recipe import explained

ABOUT = """\
# Recipes and their parameters

This page is written by `python -m weft.spec.recipe_page` from the recipes themselves; `weft recipes
NAME` shows one of them. A parameter is written as in `--recipe 'tiresias(promote=8)'`. A recipe of
your own stands beside these: [writing a recipe](recipes.md).
"""


def page() -> str:
    """The whole page."""
    return "\n".join([ABOUT, *map(_section, RECIPES)])


def _section(name: str) -> str:
    _, about, knobs = explained(name)
    lines = [f"## {name}\n", f"{about}\n"]
    if knobs:
        lines += ["| parameter | default | may be | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{knob.name}` | `{knob.default_text}` | {knob.may_be} | {knob.meaning.text} |"
            for knob in knobs
        ]
    else:
        lines.append("It has no parameters.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
