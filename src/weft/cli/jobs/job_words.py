"""What a job file asks for, in words: the plan before it is submitted, and `show` after."""

from collections.abc import Mapping
from typing import Any

Spec = Mapping[str, Any]


def several(number: int, noun: str) -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def asked(spec: Spec) -> str:
    """`4..16 GPUs of H100 or A100, 8 CPUs and 64GB each, on at most 2 nodes`."""
    wanted = spec.get("resources") or {}
    gpus = wanted.get("gpus", 1)
    if str(gpus) == "0":
        words = _with_host("no GPU", wanted.get("cpus"), wanted.get("memory"))
    else:
        words = f"{gpus} {'GPU' if str(gpus) == '1' else 'GPUs'}"
        if wanted.get("gpu_type"):
            words += f" of {' or '.join(wanted['gpu_type'])}"
        host = _with_host("", wanted.get("cpus_per_gpu"), wanted.get("memory_per_gpu"))
        words += f"{host} each" if host else ""
        for name, amount in (wanted.get("devices_per_gpu") or {}).items():
            words += f", {amount:g} {name} each"
    nodes = spec.get("nodes")
    return words + (f", on at most {several(nodes, 'node')}" if nodes else "")


def queueing(spec: Spec) -> str:
    """`research, priority 10, not preemptible`."""
    words = [spec.get("queue") or "default", f"priority {spec.get('priority') or 0}"]
    words += [] if spec.get("preemptible", True) else ["not preemptible"]
    words += [f"expected to run {spec['duration']}"] if spec.get("duration") else []
    return ", ".join(words)


def failing(spec: Spec) -> str:
    """`3 retries, saves every 10m to /ckpt, 30s to stop`."""
    limit = (spec.get("retry") or {}).get("limit", 3)
    words = [f"{limit} {'retry' if limit == 1 else 'retries'}"]
    saving = spec.get("checkpoint")
    if saving is not None:
        to = f" to {saving['path']}" if saving.get("path") else ""
        words.append(f"saves every {saving.get('every', '30m')}{to}")
    words.append(f"{spec.get('grace', '30s')} to stop")
    return ", ".join(words)


def mounted(spec: Spec) -> str:
    """`ckpt-pvc at /ckpt, data at /data (read only)`."""
    return ", ".join(
        f"{_lender(volume)} at {volume['path']}"
        + (" (read only)" if volume.get("read_only") else "")
        for volume in spec.get("volumes") or ()
    )


def _lender(volume: Spec) -> str:
    kinds = (("", "claim"), ("secret ", "secret"), ("config map ", "config_map"))
    return next((f"{word}{volume[kind]}" for word, kind in kinds if volume.get(kind)), "?")


def borrowed(spec: Spec) -> str:
    """`HF_TOKEN from secret hugging-face`."""
    return ", ".join(
        f"{entry['name']} from {_lender(entry)}" for entry in spec.get("env_from") or ()
    )


def facts(spec: Spec) -> dict[str, str]:
    """All of it, under headings; what was not asked for is left out."""
    found = {
        "run": str(spec.get("run", "")),
        "image": spec.get("image") or "",
        "workdir": spec.get("workdir") or "",
        "asks for": asked(spec),
        "queue": queueing(spec),
        "on failure": failing(spec),
        "volumes": mounted(spec),
        "environment": ", ".join(sorted(spec.get("env") or {})),
        "borrowed": borrowed(spec),
        "service account": spec.get("service_account") or "",
        "pods": _pods(spec),
        "kept": _kept(spec),
    }
    return {heading: words for heading, words in found.items() if words}


def _pods(spec: Spec) -> str:
    """What is said of its pods alone."""
    words = [f"priority class {spec['priority_class']}"] if spec.get("priority_class") else []
    words += [f"bears {key}" for key in spec.get("tolerations") or ()]
    return ", ".join([*words, *(f"{key}={value}" for key, value in _annotations(spec))])


def _annotations(spec: Spec) -> list[tuple[str, str]]:
    return sorted((spec.get("annotations") or {}).items())


def _with_host(words: str, cpus: object, memory: object) -> str:
    host = [f"{cpus} CPUs"] if cpus else []
    host += [str(memory)] if memory else []
    return ", ".join([words, " and ".join(host)]) if host else words


def _kept(spec: Spec) -> str:
    words = []
    if spec.get("keep_on_failure"):
        words.append(f"workers {spec['keep_on_failure']} after a failure")
    if spec.get("ttl"):
        words.append(f"the job {spec['ttl']} after its end")
    return ", ".join(words)
