"""The Grafana dashboard, written from a list of panels: `python -m weft.kube.dashboard > …`.

The panels name metrics of the table only; a test holds `charts/weft/dashboards/weft.json` against
this text, and every name in it against the table.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

COLUMNS: Final = 24
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
FROM: Final = 'namespace=~"$namespace"'


@dataclass(frozen=True, slots=True)
class Line:
    """One query of a panel and the name of its line; braces in the name are labels."""

    query: str
    name: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: what it answers, in which unit, and how wide it is of 24 columns."""

    title: str
    about: str
    lines: tuple[Line, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def total(metric: str, *labels: str, **where: str) -> str:
    """A gauge of the leader: other replicas show none, or for a moment the same."""
    return f"max by ({', '.join(labels)}) ({metric}{{{_where(where)}}})"


def rate(metric: str, *labels: str) -> str:
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"sum{by} (rate({metric}{{{FROM}}}[$__rate_interval]))"


def quantile(share: float, metric: str, *labels: str) -> str:
    by = ", ".join(("le", *labels))
    return (
        f"histogram_quantile({share}, "
        f"sum by ({by}) (rate({metric}_bucket{{{FROM}}}[$__rate_interval])))"
    )


def _where(labels: Mapping[str, str]) -> str:
    return ", ".join((FROM, *(f'{name}=~"{value}"' for name, value in labels.items())))


ROWS: Final[tuple[Row, ...]] = (
    Row(
        "Now",
        (
            Panel(
                "GPUs held",
                "Share of the GPUs in reach that jobs hold.",
                (
                    Line(
                        f"{total('weft_gpus', state='held')} / clamp_min("
                        f"sum({total('weft_gpus', 'state', state='free|held|foreign')}), 1)",
                        "held",
                    ),
                ),
                unit="percentunit",
                kind="gauge",
                width=4,
            ),
            Panel(
                "Waiting",
                "Jobs in line.",
                (Line(f"sum({total('weft_jobs', 'queue', state='Queued')})", "waiting"),),
                kind="stat",
                width=4,
            ),
            Panel(
                "Running",
                "Jobs that train.",
                (Line(f"sum({total('weft_jobs', 'queue', state='Running')})", "running"),),
                kind="stat",
                width=4,
            ),
            Panel(
                "Leaders",
                "Replicas that hold the lease. Anything but 1 for more than 20 seconds is trouble.",
                (Line(f"sum(weft_lease_held{{{FROM}}})", "leaders"),),
                kind="stat",
                width=4,
            ),
            Panel(
                "Broken promises",
                "Invariants broken and jobs set aside in the last day. More than 0 is a defect.",
                (
                    Line(
                        f"sum(increase(weft_invariant_breaches_total{{{FROM}}}[1d]))",
                        "breaches",
                    ),
                    Line(f"sum(increase(weft_job_faults_total{{{FROM}}}[1d]))", "set aside"),
                ),
                kind="stat",
                width=4,
            ),
            Panel(
                "Version",
                "What runs.",
                (Line(f"count by (version) (weft_build_info{{{FROM}}})", "{{version}}"),),
                kind="stat",
                width=4,
            ),
        ),
    ),
    Row(
        "Failures",
        (
            Panel(
                "Failures by class",
                "What tries of jobs failed of; weft failures tells what that cost.",
                (Line(rate("weft_failures_total", "class"), "{{class}}"),),
                stacked=True,
                width=12,
            ),
            Panel(
                "Services held open",
                "Many jobs failed on them, so others wait until they answer.",
                (Line(total("weft_breakers_open"), "services"),),
                width=6,
            ),
            Panel(
                "Nodes set aside",
                "Until a check has passed, until they are repaired, or too many for Weft alone.",
                (Line(total("weft_nodes_aside", "state"), "{{state}}"),),
                width=6,
            ),
        ),
    ),
    Row(
        "Jobs and GPUs",
        (
            Panel(
                "GPUs by state",
                "Foreign ones are taken by pods that are not Weft's; lost ones are on nodes that "
                "are out.",
                (Line(total("weft_gpus", "state"), "{{state}}"),),
                stacked=True,
            ),
            Panel(
                "Jobs by state",
                "Over all queues.",
                (Line(f"sum by (state) ({total('weft_jobs', 'state', 'queue')})", "{{state}}"),),
                stacked=True,
            ),
            Panel(
                "Waiting jobs by queue",
                "The ten longest lines.",
                (
                    Line(
                        f"topk(10, {total('weft_jobs', 'queue', state='Queued')})",
                        "{{queue}}",
                    ),
                ),
                stacked=True,
            ),
            Panel(
                "What jobs wait for",
                "Jobs waiting at a time, by the cause that their seconds are booked to.",
                (Line(rate("weft_waiting_seconds_total", "cause"), "{{cause}}"),),
                stacked=True,
            ),
            Panel(
                "Time to start",
                "From submission to the first start, for jobs that started in the interval.",
                (
                    Line(quantile(0.5, "weft_job_wait_seconds"), "half"),
                    Line(quantile(0.95, "weft_job_wait_seconds"), "95 %"),
                ),
                unit="s",
            ),
            Panel(
                "Decisions",
                "What rounds decided, per second.",
                (Line(rate("weft_decisions_total", "outcome"), "{{outcome}}"),),
                unit="ops",
            ),
        ),
    ),
    Row(
        "The operator",
        (
            Panel(
                "Time of a round",
                "How long deciding takes.",
                (
                    Line(quantile(0.5, "weft_round_duration_seconds"), "half"),
                    Line(quantile(0.99, "weft_round_duration_seconds"), "99 %"),
                ),
                unit="s",
            ),
            Panel(
                "Events and journal",
                "What the brain handled, and what was recorded of it.",
                (
                    Line(rate("weft_events_handled_total", "kind"), "{{kind}}"),
                    Line(rate("weft_journal_records_total"), "journal records"),
                ),
                unit="ops",
            ),
            Panel(
                "Memory",
                "Resident memory of each replica.",
                (
                    Line(
                        f"process_resident_memory_bytes{{{FROM}}} and on (instance) "
                        f"weft_build_info{{{FROM}}}",
                        "{{instance}}",
                    ),
                ),
                unit="bytes",
            ),
        ),
    ),
    Row(
        "The API server",
        (
            Panel(
                "Calls",
                "By verb and outcome.",
                (Line(rate("weft_api_calls_total", "verb", "outcome"), "{{verb}} {{outcome}}"),),
                unit="reqps",
            ),
            Panel(
                "Time of a call, 99 %",
                "By verb, watches aside.",
                (Line(quantile(0.99, "weft_api_call_duration_seconds", "verb"), "{{verb}}"),),
                unit="s",
            ),
            Panel(
                "Writes",
                "Pods made and ended, and statuses written.",
                (
                    Line(rate("weft_pods_created_total"), "pods created"),
                    Line(rate("weft_pods_deleted_total"), "pods deleted"),
                    Line(rate("weft_status_writes_total", "outcome"), "status {{outcome}}"),
                ),
                unit="ops",
            ),
            Panel(
                "Silence of watches",
                "Time since the last event or bookmark. The API server sends one every minute.",
                (Line(total("weft_watch_lag_seconds", "kind"), "{{kind}}"),),
                unit="s",
                width=12,
            ),
            Panel(
                "Watches begun again",
                "Now and then is normal.",
                (Line(rate("weft_watch_restarts_total", "kind"), "{{kind}}"),),
                unit="ops",
                width=12,
            ),
        ),
    ),
    Row(
        "Reports of workers",
        (
            Panel(
                "Reports",
                "By what became of them.",
                (Line(rate("weft_reports_total", "result"), "{{result}}"),),
                unit="ops",
                width=12,
            ),
            Panel(
                "Tokens",
                "Known already, or what the API server said of them.",
                (Line(rate("weft_token_reviews_total", "outcome"), "{{outcome}}"),),
                unit="ops",
                width=12,
            ),
        ),
    ),
)


def dashboard() -> str:
    """The dashboard as Grafana reads it."""
    board = {
        "uid": "weft",
        "title": "Weft",
        "description": "Jobs, GPUs and the operator of one cluster.",
        "tags": ["weft"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "panels": list(_panels()),
    }
    return orjson.dumps(board, option=orjson.OPT_INDENT_2).decode() + "\n"


HEIGHT: Final = 8
STAT_HEIGHT: Final = 4


def _variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "label": "Source", "type": "datasource", "query": "prometheus"},
        {
            "name": "namespace",
            "label": "Namespace of Weft",
            "type": "query",
            "datasource": SOURCE,
            "query": {"query": "label_values(weft_build_info, namespace)", "refId": "namespace"},
            "refresh": 2,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        },
    ]


def _panels() -> Iterator[dict[str, Any]]:
    top, number = 0, 1
    for row in ROWS:
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "gridPos": place, "panels": []}
        top, number, left, height = top + 1, number + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left = top + height, 0
            height = HEIGHT if panel.kind == "timeseries" else STAT_HEIGHT
            place = {"x": left, "y": top, "w": panel.width, "h": height}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            left, number = left + panel.width, number + 1
        top += height


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "fillOpacity": 30 if panel.stacked else 0,
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "showPoints": "never",
        }
    if panel.kind == "gauge":
        defaults["max"] = 1
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "targets": [_target(line, number) for number, line in enumerate(panel.lines)],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"textMode": "name"} if panel.title == "Version" else {},
    }


def _target(line: Line, number: int) -> dict[str, Any]:
    return {
        "refId": "ABCDEFGH"[number],
        "datasource": SOURCE,
        "expr": line.query,
        "legendFormat": line.name,
    }


if __name__ == "__main__":
    sys.stdout.write(dashboard())
