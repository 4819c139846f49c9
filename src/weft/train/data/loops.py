"""The loops of a script in the order in which it comes to them, and where each begins to read.

A loop that uses the loader of an earlier one goes on where that one has stopped, so that the second
pass over the data is not the first one again. A loader of its own begins at its first sample.
"""

from weft.model.errors import SpecError
from weft.train.data.loader import Loader
from weft.train.state.progress import Progress


class Loops:
    """Those that this process has come to."""

    def __init__(self) -> None:
        self._loaders: list[Loader] = []

    @property
    def number(self) -> int:
        """Of the present one."""
        return len(self._loaders) - 1

    def enter(self, loader: Loader) -> int:
        """The script comes to the next one."""
        self._loaders.append(loader)
        return self.number

    def check(self, number: int) -> None:
        """Refuse to go on in one that another has followed."""
        if number != self.number:
            raise SpecError(
                "a loop of weft.steps goes on though another was begun",
                hint="one loop at a time: end the first before the second begins",
            )

    def check_that_steps_are_left(self, total: int, done: int) -> None:
        """A loop that would silently do nothing is a mistake."""
        if 0 < total <= done:
            raise SpecError(
                f"weft.steps(total={total}) has nothing to do: {done} steps are done",
                hint="total counts the steps of all loops together: "
                f"write total={done + total} for {total} more",
            )

    def first(self, loader: Loader) -> int:
        """The first loop that reads from that loader: by this number its stream is known."""
        return self._loaders.index(loader)

    def read(self, progress: Progress) -> int:
        """Steps that the present loader has given so far."""
        mine = self._loaders[-1]
        pairs = zip(self._loaders, progress.loops, strict=False)
        given = sum(steps for loader, steps in pairs if loader is mine)
        if progress.before is None or mine is not self._loaders[0]:
            return given
        steps, samples = progress.before
        if samples % mine.global_batch:
            raise SpecError(
                f"the {samples:,} samples of the imported steps are no whole number of batches of "
                f"{mine.global_batch}",
                hint="import it again with --samples of a multiple of the batch, or without",
            )
        return given - steps + samples // mine.global_batch

    def end_of_pass(self, progress: Progress) -> int:
        """Steps of all loops when the pass that the present loop began in is over.

        A step may take the first samples of the next pass along, which is then shorter.
        """
        loader, before = self._loaders[-1], progress.loops[: self.number]
        pairs = zip(self._loaders, before, strict=False)
        read = sum(steps for one, steps in pairs if one is loader)
        passes = read * loader.global_batch // loader.samples + 1
        return sum(before) + -(-passes * loader.samples // loader.global_batch) - read

    def samples(self, progress: Progress) -> int:
        """Used by all steps so far."""
        pairs = zip(self._loaders, progress.loops, strict=False)
        used = sum(steps * loader.global_batch for loader, steps in pairs)
        if progress.before is None or not self._loaders:
            return used
        steps, samples = progress.before
        return used - steps * self._loaders[0].global_batch + samples


def check_that_it_ends(loader: Loader, total: int | None) -> None:
    if total is None and loader.steps_per_epoch is None:
        raise SpecError(
            "a pass over a stream has no length that is known",
            hint="write weft.steps(loader, total=...)",
        )
