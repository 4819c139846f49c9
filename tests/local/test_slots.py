"""Who gets which slots when several jobs start in one round."""

from tests.local.daemons import Lab, a_lab

LONG = "model total=100000 step=0.1 save=1 live"
STAGES = {"storage_seconds": 0.05, "gpu_seconds": 0.05}
PARTY = ("loads", "computes")
MANY = ("a", "b", "c", "d", "e")


def test_jobs_that_start_at_once_have_slots_of_their_own() -> None:
    with a_lab(slots=6, recipe="fifo(spacing=2)") as lab:
        lab.start()
        lab.submit("first", LONG)
        lab.wait_for("first", "Running")
        for name in MANY:
            lab.submit(name, LONG)
        for name in MANY:
            lab.wait_for(name, "Running")
        assert sorted(_slots(lab, "first", *MANY)) == [0, 1, 2, 3, 4, 5]


def test_a_party_that_starts_at_once_has_the_same_slots() -> None:
    """While the machine is probed before its first gang, another joins that gang."""
    recipe = "fifo(spacing=0.1, interleave=true)"
    with a_lab(slots=2, recipe=recipe, gang_probe_hours=1.0) as lab:
        lab.start()
        for name in PARTY:
            lab.submit(name, LONG, gpus=2, shareable=True, stages=STAGES)
        for name in PARTY:
            lab.wait_for(name, "Running")
        assert [_slots(lab, name) for name in PARTY] == [[0, 1], [0, 1]]


def _slots(lab: Lab, *names: str) -> list[int]:
    return [slot for name in names for slot in sorted(lab.entry(name).devices)]
