"""`weft recipes`: what there is to choose from."""

import inspect
from dataclasses import asdict, dataclass

import click

from weft.cli.options import output_option
from weft.cli.terminal.screen import new_table, print_json, stdout

SCHEMA = "weft-recipes/1"


@dataclass(frozen=True, slots=True)
class Line:
    """One recipe of the list."""

    name: str
    about: str
    parameters: dict[str, object]


@click.command()
@output_option()
def recipes(output: str) -> None:
    """List the recipes and their parameters.

    Write a parameter as in --recipe 'tiresias(promote=8)'. A recipe of your own stands in a Python
    file: --recipe path/to/mine.py:my_recipe names a Recipe there or a function that returns one.
    """
    if output == "json":
        print_json({"schema": SCHEMA, "recipes": [asdict(line) for line in listing()]})
        return
    table = new_table("Recipes")
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it does")
    table.add_column("parameters")
    for line in listing():
        knobs = ", ".join(f"{name}={value}" for name, value in line.parameters.items())
        table.add_row(line.name, line.about, knobs)
    stdout().print(table)


def listing() -> list[Line]:
    """Names, docstrings and signatures, as they stand in the code."""
    from weft.policy.recipes import RECIPES
    from weft.spec.recipe import parameters_of

    return [
        Line(
            name,
            inspect.getdoc(maker) or "",
            {knob.name: knob.default for knob in parameters_of(maker)},
        )
        for name, maker in RECIPES.items()
    ]
