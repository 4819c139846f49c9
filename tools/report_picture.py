"""`python -m tools.report_picture`: the top of a report, as a browser shows it.

The run is simulated anew and its `report.html` is opened in a real browser, so the picture can be
made again by anyone who has chromium.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "report.png"
RUN = ("simulate", "--recipe", "backfill", "--jobs", "500", "--load", "1.2", "--out")
SIZE = "1100,900"


@click.command()
@click.argument("out", type=click.Path(path_type=Path), default=PICTURE)
def main(out: Path) -> None:
    """Draw the report into OUT."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise click.ClickException("chromium is needed: apt-get install chromium")
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        subprocess.run([sys.executable, "-m", "weft.cli.main", *RUN, str(run)], check=True)
        shows = ("--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE}")
        page = (run / "report.html").as_uri()
        subprocess.run([browser, *shows, f"--screenshot={out.resolve()}", page], check=True)


if __name__ == "__main__":
    main()
