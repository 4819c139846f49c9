"""A worker's request that is not served: the HTTP status, why, and what to do about it."""

from weft.model.errors import WeftError


class Refusal(WeftError):
    """`retry_after_seconds` where the same request may be served later."""

    def __init__(
        self, status: int, message: str, *, hint: str, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
