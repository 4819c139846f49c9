"""`python -m tools.site OUT`: the documentation site, with search, readable without a server.

A document that the navigation does not name, a link or an anchor that leads nowhere: each is a
failure.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from sphinx.cmd.build import build_main

from tools.site.pages import gather

CONFIGURATION = Path(__file__).parent


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path), default="build/site")
def main(out: Path) -> None:
    """Build the site into OUT."""
    with TemporaryDirectory() as folder:
        gather(Path(folder))
        strict = ["-W", "--keep-going", "-q", "-E", "-d", f"{folder}/.doctrees"]
        status = build_main([*strict, "-b", "html", "-c", str(CONFIGURATION), folder, str(out)])
    if status:
        sys.exit(status)
    click.echo(f"open {out / 'index.html'}", err=True)


if __name__ == "__main__":
    main()
