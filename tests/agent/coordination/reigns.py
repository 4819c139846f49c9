"""Random histories of who leads a job: lines that are cut, answers that are lost, seats that die.

Each seat has one worker. The rules by which a seat claims and an operator answers are those of the
product; what a head does with the answers is told here in a few lines. A step needs all members of
an epoch, so what counts is which epochs make steps: a later one must descend from all that did so
before it. If two go on side by side, somebody leads who should not.

    python -m tools.explore --kind histories
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from weft.agent.coordination.heirs import heirs_of
from weft.agent.coordination.limits import Limits
from weft.agent.messages import Heirs
from weft.agent.pods.discovery import Head
from weft.agent.pods.mandate import Search
from weft.agent.settings import Pod
from weft.kube.reports.headship import Headship
from weft.kube.reports.refusal import Refusal

LATE = 1000.0  # everybody's turn to claim has come
MOVES = 300


class TwoGoOn(AssertionError):
    """Two epochs make steps, and neither comes from the other."""


@dataclass(eq=False)
class Epoch:
    members: frozenset[int]
    parent: "Epoch | None" = None

    def descends_from(self, other: "Epoch") -> bool:
        found: Epoch | None = self
        while found is not None and found is not other:
            found = found.parent
        return found is other


@dataclass
class Seat:
    """Its worker is in an epoch, or blank. A head is sure or not; a follower knows its heirs."""

    number: int
    alive: bool = True
    epoch: Epoch | None = None
    term: int = 1
    head: int | None = 0  # whom it follows; itself if it leads, nobody if it looks for one
    heirs: Heirs | None = None
    followers: set[int] = field(default_factory=set)
    ever_heirs: set[int] = field(default_factory=set)
    unsure: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    gathers: bool = False
    newest: int = 1
    seen: tuple[Headship, int] | None = None  # what the operator has told, a while ago

    @property
    def leads(self) -> bool:
        return self.alive and self.head == self.number


class Reign:
    """One job of some seats, the first of which leads."""

    def __init__(self, seed: int, *, cautious: bool = True, trusting: bool = False) -> None:
        self.random, self.cautious, self.trusting = Random(seed), cautious, trusting
        width = self.random.randint(2, 5)
        members = frozenset(self.random.sample(range(width), self.random.randint(2, width)))
        epoch = Epoch(members)
        self.seats = [Seat(number) for number in range(width)]
        for seat in self.seats:
            seat.epoch = epoch if seat.number in members else None
        self.seats[0].followers = set(range(1, width))
        self.record, self.present = Headship(), 0
        self.cuts: set[frozenset[int]] = set()
        self.deaf: set[int] = set()  # who cannot reach the operator
        self.last = epoch
        self.name_heirs(self.seats[0])

    def play(self) -> None:
        moves: tuple[Callable[[Seat], None], ...] = (
            *(self.step,) * 4,
            self.name_heirs,
            self.look_for_a_head,
            self.turn_to_a_head,
            self.turn_to_a_head,
            self.miss_the_head,
            self.miss_an_follower,
            self.ask,
            self.gather,
            self.decide,
            self.grow,
            self.cut,
            self.mend,
            self.die,
        )
        for _ in range(MOVES):
            alive = [seat for seat in self.seats if seat.alive]
            if not alive:
                return
            self.random.choice(moves)(self.random.choice(alive))

    # ------------------------------------------------------------------------------ the world

    def cut(self, seat: Seat) -> None:
        if self.random.random() < 0.3:
            self.deaf.add(seat.number)
        else:
            self.cuts.add(frozenset({seat.number, self.random.choice(self.seats).number}))

    def mend(self, seat: Seat) -> None:
        self.deaf.discard(seat.number)
        self.cuts = {cut for cut in self.cuts if seat.number not in cut}

    def die(self, seat: Seat) -> None:
        if self.random.random() < 0.03:
            seat.alive = False

    def meets(self, one: int, other: int) -> bool:
        return self.seats[other].alive and frozenset({one, other}) not in self.cuts

    def step(self, seat: Seat) -> None:
        epoch = seat.epoch
        if epoch is None:
            return
        here = [self.seats[number] for number in epoch.members]
        if not all(one.alive and one.epoch is epoch for one in here):
            return
        if not all(self.meets(a, b) for a in epoch.members for b in epoch.members):
            return
        if not epoch.descends_from(self.last):
            raise TwoGoOn(f"members {sorted(epoch.members)} beside {sorted(self.last.members)}")
        self.last = epoch

    def say(self, claim: Headship, seat: int) -> bool | None:
        """The operator's answer, which may be lost on its way; None where there is none."""
        if seat in self.deaf:
            return None
        try:
            self.record = self.record.followed_by(claim)
        except Refusal:
            return False
        self.present = seat
        return None if self.random.random() < 0.1 else True

    # ----------------------------------------------------------------------------- a follower

    def miss_the_head(self, seat: Seat) -> None:
        head = seat.head
        if head is None or head == seat.number:
            return
        gone = not self.meets(seat.number, head) or seat.number not in self.seats[head].followers
        if gone or not self.seats[head].leads:
            seat.head, seat.newest = None, seat.term

    def look_for_a_head(self, seat: Seat) -> None:
        if seat.head is None and seat.number not in self.deaf:
            seat.seen = self.record, self.present

    def turn_to_a_head(self, seat: Seat) -> None:
        """What was told may not be true any more."""
        if seat.head is not None or seat.seen is None or seat.heirs is None:
            return
        (record, present), seat.seen = seat.seen, None
        if seat.number in record.lost and record.term >= seat.term:
            seat.alive = False
        elif record.term > seat.newest and present != seat.number:
            self._join(seat, self.seats[present], record.term)
        elif (term := self._may_claim(seat)) and self.say(Headship(seat.number, term), seat.number):
            self._lead(seat, term)

    def _join(self, seat: Seat, head: Seat, term: int) -> None:
        if not (head.leads and self.meets(seat.number, head.number)):
            seat.newest = term
            return
        head.followers.add(seat.number)
        seat.head, seat.term = head.number, head.term
        if not head.gathers:  # it comes too late, and what it has is of no use
            seat.epoch = None

    def _may_claim(self, seat: Seat) -> int | None:
        assert seat.heirs is not None
        pod = Pod(seat=seat.number, gpus=1, host=f"10.0.0.{seat.number + 1}")
        search = Search(seat.heirs, pod, Head("10.0.1.1:1", "", seat.newest), Limits(), 0.0)
        standing = () if seat.epoch is None else (seat.number,)
        return search.may_claim(LATE, standing, leaves=False)

    def _lead(self, seat: Seat, term: int) -> None:
        assert seat.heirs is not None
        seat.term, seat.head, seat.gathers = term, seat.number, True
        seat.ever_heirs = {*seat.heirs.seats} - {seat.number}
        seat.followers, seat.unsure, seat.lost = set(), set(), set()

    # -------------------------------------------------------------------------------- a head

    def gather(self, seat: Seat) -> None:
        """Who has come has come; the others may lead by now."""
        if seat.leads and seat.gathers:
            seat.gathers = False
            seat.unsure |= set() if self.trusting else seat.ever_heirs - seat.followers
            seat.alive = seat.epoch is not None

    def name_heirs(self, seat: Seat) -> None:
        if not seat.leads or seat.gathers or seat.epoch is None:
            return
        members = tuple(sorted(seat.epoch.members))
        counts = {number: int(number in members) for number in seat.followers}
        told = Heirs(seat.term, tuple(sorted(seat.followers)), heirs_of(counts, ()), members, 9)
        seat.ever_heirs |= {*told.heirs}
        for number in seat.followers:
            if self.meets(seat.number, number) and self.seats[number].head == seat.number:
                self.seats[number].heirs = told

    def miss_an_follower(self, seat: Seat) -> None:
        for number in sorted(seat.followers) if seat.leads else ():
            follows = self.seats[number].head == seat.number
            if not (self.meets(seat.number, number) and follows):
                seat.followers.discard(number)
                if number in seat.ever_heirs and not seat.gathers:
                    seat.unsure.add(number)

    def ask(self, seat: Seat) -> None:
        if not seat.leads or seat.gathers:
            return
        asked = set(seat.unsure)
        seat.lost |= asked
        answer = self.say(Headship(seat.number, seat.term, tuple(sorted(seat.lost))), seat.number)
        if answer is False:
            seat.alive = False
        elif answer:
            seat.unsure -= asked

    def decide(self, seat: Seat) -> None:
        """Those who are here go on without those who are not; nobody is done without unheard."""
        epoch = seat.epoch
        if not self._may_decide(seat) or epoch is None:
            return
        here = epoch.members & {seat.number, *seat.followers}
        if all(self.seats[n].head == seat.number and self.meets(seat.number, n) for n in here):
            self._begin(frozenset(n for n in here if self.seats[n].epoch is epoch), epoch)

    def grow(self, seat: Seat) -> None:
        epoch = seat.epoch
        if not self._may_decide(seat) or epoch is None:
            return
        blank = {n for n in seat.followers if self.seats[n].epoch is None}
        wanted = epoch.members | blank
        if all(self.meets(seat.number, n) for n in wanted) and all(
            self.seats[n].epoch is epoch for n in epoch.members
        ):
            self._begin(wanted, epoch)

    def _may_decide(self, seat: Seat) -> bool:
        return seat.leads and not seat.gathers and not (self.cautious and seat.unsure)

    def _begin(self, members: frozenset[int], parent: Epoch) -> None:
        epoch = Epoch(members, parent)
        for number in members:
            self.seats[number].epoch = epoch


def play_reign(seed: int) -> int:
    """The last term of a history."""
    reign = Reign(seed)
    reign.play()
    return reign.record.term
