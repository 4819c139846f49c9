"""What the checks of random worlds raise."""


class PromiseBroken(AssertionError):
    """A promise does not hold; `promise` is its number in the notes."""

    def __init__(self, promise: str, detail: str) -> None:
        super().__init__(f"{promise}: {detail}")
        self.promise = promise
