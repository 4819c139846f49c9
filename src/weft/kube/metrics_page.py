"""`docs/metrics.md`, written from the table of metrics: `python -m weft.kube.metrics_page > …`.

A test holds the page against this text, so that no name changes without its documentation.
"""

import sys
from collections.abc import Iterator

from weft.kube.metrics import MOST_VALUES, OTHER, TABLE, Metric

ABOUT = f"""\
# Metrics

The operator shows its metrics at `/metrics`, in Prometheus' text format, on a port of its own that
workers cannot reach. The chart brings a Grafana dashboard that is made of them.

Times are in seconds. A label with a closed list of values shows `{OTHER}` for anything else; one
whose values administrators or the API server name shows at most {MOST_VALUES} of them. No job, pod,
node or tenant is a label: for single jobs read their status. Beside these stand the usual
`process_*` metrics (processor time, memory, open files).

This page is written by `python -m weft.kube.metrics_page`.

| name | type | unit | labels | meaning |
|---|---|---|---|---|
"""


def page() -> str:
    return ABOUT + "".join(f"{row}\n" for row in _rows())


def _rows() -> Iterator[str]:
    for metric in TABLE:
        labels = _labels(metric) or "–"
        yield f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |"


def _labels(metric: Metric) -> str:
    return "; ".join(
        f"`{label.name}`" + (f": {', '.join(label.values)}" if label.values else "")
        for label in metric.labels
    )


if __name__ == "__main__":
    sys.stdout.write(page())
