"""Whatever order lists, events and answers come in, a cache ends in the truth.

The server is a history in memory, so that every order can be tried.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.kube.client.cached import Item, a_cache, raw_object


class AnyOrder(RuleBasedStateMachine):
    """A server that goes on while lists, answers and events are under way to one cache."""

    names = st.sampled_from("abc")

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.truth: dict[str, Item] = {}
        self.states: list[dict[str, Item]] = [{}]
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[dict[str, Any]] = []
        self.lists: list[tuple[int, int, dict[str, Item]]] = []
        self.followed = 0
        self.told: dict[str, Item] = {}
        self.cache = a_cache(on_change=self.heard)
        self.synced = False
        self.reached = 0
        self.answered: dict[str, int] = {}

    def heard(self, key: str, old: Item | None, new: Item | None) -> None:
        assert self.told.get(key) == old
        assert new != old
        if new is None:
            del self.told[key]
        else:
            self.told[key] = new

    @rule(name=names, ours=st.booleans())
    def write(self, name: str, ours: bool) -> None:
        """Somebody creates or changes an object; if we did, an answer is under way."""
        self.version += 1
        before = self.truth.get(name)
        item = Item(before.uid if before else f"u{self.version}", self.version)
        self.truth[name] = item
        raw = raw_object(name, item.version, item.uid)
        self._record("MODIFIED" if before else "ADDED", raw)
        if ours:
            self.answers.append(raw)

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name in self.truth:
            self.version += 1
            item = self.truth.pop(name)
            self._record("DELETED", raw_object(name, self.version, item.uid))

    def _record(self, kind: str, raw: dict[str, Any]) -> None:
        self.states.append(dict(self.truth))
        self.events.append((kind, raw))

    @precondition(lambda self: self.answers)
    @rule(pick=st.integers(min_value=0))
    def answer(self, pick: int) -> None:
        raw = self.answers.pop(pick % len(self.answers))
        self.cache.put(raw)
        name, version = raw["metadata"]["name"], int(raw["metadata"]["resourceVersion"])
        self.answered[name] = max(self.answered.get(name, 0), version)

    @rule()
    def ask_for_list(self) -> None:
        known = max(self.cache.version, self.cache._newest)
        self.lists.append((known, self.version, dict(self.truth)))

    @precondition(lambda self: self.lists)
    @rule(pick=st.integers(min_value=0))
    def listed(self, pick: int) -> None:
        known, version, items = self.lists.pop(pick % len(self.lists))
        self.cache.take_list(version, items, rewound=version < known)
        if not self.synced:
            self.synced, self.followed = True, self.cache.version

    @precondition(lambda self: self.synced and self.followed < self.version)
    @rule()
    def event(self) -> None:
        """The next event of the watch that is open; lists meanwhile do not move it."""
        self.cache.take_event(*self.events[self.followed])
        self.followed += 1

    @precondition(lambda self: self.synced)
    @rule()
    def bookmark(self) -> None:
        self.cache.take_event("BOOKMARK", raw_object("", self.followed))

    @precondition(lambda self: self.synced)
    @rule()
    def watch_again(self) -> None:
        self.followed = self.cache.version

    @invariant()
    def nothing_is_older_than_what_was_followed(self) -> None:
        then = self.states[self.cache.version] if self.synced else {}
        assert set(then) <= set(self.cache.items)
        for name, item in self.cache.items.items():
            if item.version <= self.cache.version:
                assert then.get(name) == item
            else:
                assert self.states[item.version][name] == item

    @invariant()
    def what_we_wrote_stays_known(self) -> None:
        for name, version in self.answered.items():
            known = self.cache.items.get(name)
            assert self.cache.version >= version or (known and known.version >= version)

    @invariant()
    def the_way_is_forward(self) -> None:
        assert self.cache.version >= self.reached
        self.reached = self.cache.version

    @invariant()
    def changes_add_up(self) -> None:
        assert self.told == self.cache.items

    def teardown(self) -> None:
        """Whatever is still under way arrives; then the cache knows the truth."""
        if not self.synced:
            self.ask_for_list()
        while self.lists:
            self.listed(0)
        while self.answers:
            self.answer(len(self.answers) // 2)
        while self.followed < self.version:
            self.event()
        self.nothing_is_older_than_what_was_followed()
        assert self.cache.items == self.truth
        assert self.cache.version == self.version


AnyOrder.TestCase.settings = settings(stateful_step_count=40)
TestAnyOrder = AnyOrder.TestCase


def test_an_answer_that_is_late_does_not_bring_back_the_dead() -> None:
    cache = a_cache()
    cache.take_event("ADDED", raw_object("a", 5, "one"))
    cache.take_event("DELETED", raw_object("a", 7, "one"))
    cache.put(raw_object("a", 6, "one"))
    assert cache.items == {}
    cache.put(raw_object("a", 8, "two"))
    assert cache.items["a"].uid == "two"


def test_an_answer_is_known_before_its_event() -> None:
    changes: list[int] = []
    cache = a_cache(on_change=lambda _key, _old, new: changes.append(new.version))
    assert cache.put(raw_object("a", 5)).version == 5
    assert cache.put(raw_object("a", 4)).version == 5
    cache.take_event("ADDED", raw_object("a", 4))
    cache.take_event("MODIFIED", raw_object("a", 5))
    assert changes == [5]


def test_a_deletion_before_our_new_object_is_not_its_own() -> None:
    cache = a_cache()
    cache.take_event("ADDED", raw_object("a", 5, "one"))
    cache.put(raw_object("a", 8, "two"))
    cache.take_event("DELETED", raw_object("a", 7, "one"))
    assert cache.items["a"].uid == "two"


def test_leaving_the_selection_is_a_deletion_with_the_version_of_our_write() -> None:
    cache = a_cache()
    cache.take_event("ADDED", raw_object("a", 5))
    cache.put(raw_object("a", 6))
    cache.take_event("DELETED", raw_object("a", 6))
    assert cache.items == {}


def test_a_server_restored_from_a_backup_is_believed() -> None:
    cache = a_cache()
    cache.take_list(50, {"a": Item("u", 40), "b": Item("u", 50)})
    cache.take_list(20, {"a": Item("u", 15)}, rewound=True)
    assert cache.items == {"a": Item("u", 15)}
    assert cache.version == 20
    cache.take_event("MODIFIED", raw_object("a", 21))
    assert cache.items["a"].version == 21
