"""`weft recipes show`: one recipe, and what can be set."""

from typing import TYPE_CHECKING

import click

from weft.cli.options import output_option
from weft.cli.terminal.screen import new_table, plain, print_json, stdout

if TYPE_CHECKING:
    from weft.spec.recipe_parameters import Parameter

SCHEMA = "weft-recipe/1"


@click.command()
@click.argument("name")
@output_option()
@click.pass_context
def show(context: click.Context, name: str, output: str) -> None:
    """Explain the recipe NAME: each parameter's meaning, default and range.

    NAME may be of a file of your own, as in path/to/mine.py:my_recipe; what its parameters mean is
    then read from the function's docstring, a line "name: meaning" each.
    """
    from weft.spec.recipe import explained

    written, about, knobs = explained(name)
    before = context.parent.params.get("output") if context.parent is not None else None
    if "json" in (output, before):
        print_json(
            {
                "schema": SCHEMA,
                "name": written,
                "about": about,
                "parameters": [_as_dict(knob) for knob in knobs],
            }
        )
        return
    console = stdout()
    console.print(f"{written}: {about}", markup=False, style="bold")
    if not knobs:
        console.print("It has no parameters.")
        return
    table = new_table("")
    table.add_column("parameter", style="bold", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("may be")
    table.add_column("what it means")
    for knob in knobs:
        table.add_row(knob.name, plain(knob.default_text), plain(knob.may_be), knob.meaning.text)
    console.print(table)
    example = next((knob for knob in knobs if not isinstance(knob.default, bool)), knobs[0])
    said = example.text if example.default not in (None, "") else f"{example.name}=1"
    console.print(f"for example: --recipe '{written}({said})'", markup=False, style="dim")


def _as_dict(knob: "Parameter") -> dict[str, object]:
    return {
        "name": knob.name,
        "default": knob.default if knob.default_text else None,
        "required": not knob.default_text,
        "kind": knob.kind,
        "least": knob.meaning.least,
        "most": knob.meaning.most,
        "meaning": knob.meaning.text,
    }
