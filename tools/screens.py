"""`python -m tools.screens`: the pictures of a comparison and of a notebook, made anew.

What stands in the pictures really ran. A comparison is shown as a terminal of 80 columns shows it
and as a browser shows its page, by day and by night; so is what a notebook shows.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from weft import lab

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COMPARISON = (
    "weft compare --jobs 300 --load 1.1 --cluster 4x8 "
    "--recipe 'fifo,backfill,las,tiresias(promote=8),weave'"
)
SCHEMES = {"light": 1, "dark": 0}  # as chromium counts them
NOTEBOOK = """<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; max-width: 1050px }
pre { border: 1px solid #8884; border-radius: 4px; padding: .5rem .8rem; background: #8881 }
table { border-collapse: collapse; font-size: .85rem } td, th { padding: .2rem .6rem }
</style>"""


@click.command()
def main() -> None:
    """Draw all of them into docs/images."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise click.ClickException("chromium is needed: apt-get install chromium")
    terminal = ["--columns", "80", "--title", "weft compare", str(IMAGES / "compare.svg")]
    subprocess.run([sys.executable, "-m", "tools.screenshot", *terminal, COMPARISON], check=True)
    with TemporaryDirectory() as folder:
        out = Path(folder)
        subprocess.run(["/bin/sh", "-c", f"{COMPARISON} --out {out / 'run'}"], check=True)
        (out / "notebook.html").write_text(notebook(), encoding="utf-8")
        for page, name, size in (
            (out / "run" / "report.html", "compare", "1400,1500"),
            (out / "notebook.html", "notebook", "1100,1180"),
        ):
            for scheme, number in SCHEMES.items():
                picture = IMAGES / f"{name}-{scheme}.png"
                photographed(browser, page, picture, size=size, scheme=number)


def photographed(browser: str, page: Path, picture: Path, *, size: str, scheme: int) -> None:
    """What the browser shows of the page."""
    flags = (
        *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--virtual-time-budget=3000", f"--window-size={size}"),
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--user-data-dir={page.parent / 'profile'}",
    )
    subprocess.run([browser, *flags, f"--screenshot={picture}", page.as_uri()], check=True)


def notebook() -> str:
    """Some cells, and what each shows."""
    jobs = lab.generated(200, load=1.2)
    run = lab.simulate(jobs, recipe="las", cluster="4x8")
    both = lab.compare(jobs, recipes=["fifo", "las", "srtf"], cluster="4x8", seeds=3)
    waits = run.waits.dicts()
    longest = max(waits, key=lambda row: row["capacity_seconds"])["job"]
    cells = (
        ('run = lab.simulate(jobs, recipe="las", cluster="4x8")\nrun', run._repr_html_()),
        (f'run.why("{longest}")', run.why(longest)._repr_html_()),
        (f'run.job("{longest}")', run.job(longest)._repr_html_()),
        (
            'lab.compare(jobs, recipes=["fifo", "las", "srtf"], cluster="4x8")',
            both._repr_html_(),
        ),
    )
    return NOTEBOOK + "".join(f"<pre>{code}</pre>{shown}" for code, shown in cells)


if __name__ == "__main__":
    main()
