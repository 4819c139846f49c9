"""`weft recipes new`: a recipe of one's own to begin with."""

from keyword import iskeyword
from pathlib import Path

import click

from weft.cli.terminal.screen import say
from weft.model.errors import SpecError


@click.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Write over files that are there.")
def new(name: str, force: bool) -> None:
    """Write NAME.py, a recipe that runs as it is, and test_NAME.py, its tests."""
    from weft.spec.recipe_template import recipe_template, tests_template

    path = Path(name if name.endswith(".py") else f"{name}.py")
    own = path.stem
    if not own.isidentifier() or iskeyword(own) or own != own.lower() or own.startswith("_"):
        raise SpecError(
            f"'{own}' cannot be the name of a recipe",
            hint="small letters, digits and _, such as my_recipe",
        )
    tests = path.with_name(f"test_{own}.py")
    for file in (path, tests):
        if file.exists() and not force:
            raise SpecError(f"'{file}' is there already", hint="--force writes over it")
    try:
        path.write_text(recipe_template(own), encoding="utf-8")
        tests.write_text(tests_template(own), encoding="utf-8")
    except OSError as error:
        raise SpecError(
            f"{path}: cannot be written: {error.strerror}", hint="check the path"
        ) from None
    say(f"wrote {path} and {tests}")
    say(f"next: weft compare --recipe fifo,{path}:{own}, then pytest {tests}")
