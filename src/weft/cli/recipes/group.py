"""`weft recipes`: what there is to choose from, and a beginning for one's own."""

import inspect
from dataclasses import asdict, dataclass

import click

from weft.cli.entry import Entry
from weft.cli.lazy import LazyGroup
from weft.cli.options import output_option
from weft.cli.terminal.screen import new_table, print_json, stdout

SCHEMA = "weft-recipes/1"
COMMANDS = {
    "show": Entry("weft.cli.recipes.show:show", "Explain a recipe and each of its parameters."),
    "new": Entry("weft.cli.recipes.new:new", "Begin a recipe of your own, with its tests."),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One recipe of the list."""

    name: str
    about: str
    parameters: dict[str, object]


class RecipesGroup(LazyGroup):
    """`weft recipes NAME` is short for `weft recipes show NAME`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.entries and not args[0].startswith("-"):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=RecipesGroup, entries=COMMANDS, invoke_without_command=True)
@output_option()
@click.pass_context
def recipes(context: click.Context, output: str) -> None:
    """List the recipes and their parameters; with a NAME, explain that one.

    Write a parameter as in --recipe 'tiresias(promote=8)'. A recipe of your own stands in a Python
    file: --recipe path/to/mine.py:my_recipe names a Recipe there or a function that returns one.
    """
    if context.invoked_subcommand is not None:
        return
    if output == "json":
        print_json({"schema": SCHEMA, "recipes": [asdict(line) for line in listing()]})
        return
    table = new_table("Recipes", caption="weft recipes NAME explains the parameters of one.")
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
    from weft.spec.recipe_parameters import parameters_of

    return [
        Line(
            name,
            inspect.getdoc(maker) or "",
            {knob.name: knob.default for knob in parameters_of(maker)},
        )
        for name, maker in RECIPES.items()
    ]
