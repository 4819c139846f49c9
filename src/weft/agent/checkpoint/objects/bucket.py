"""A prefix of an object store, by the few operations that a vault needs.

All of them are those of S3, through fsspec: an object appears whole or not at all, `create` is a
put that fails where the object exists (`If-None-Match: *`), and a list shows everything that was
put before it was asked for. What the store refuses becomes an error of ours.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from weft.agent.checkpoint.errors import Damaged, VaultError

PART_BYTES: Final = 32 << 20
MOST_PARTS: Final = 9_000  # S3 takes ten thousand
TIMES: Final = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 3}}


class Bucket:
    """`s3://bucket/prefix`; credentials and endpoint are found as every tool of AWS finds them."""

    def __init__(self, url: str) -> None:
        import fsspec

        self.url = url
        self._files: Any = fsspec.filesystem(
            "s3", config_kwargs=TIMES, use_listings_cache=False, skip_instance_cache=True
        )
        self._root = url.partition("://")[2]

    def list(self) -> dict[str, int]:
        """The names below the prefix, and the size of each."""
        with self._reached(""):
            self._files.invalidate_cache()
            found = self._files.find(self._root, detail=True)
        below = len(self._root) + 1
        return {path[below:]: int(one["size"]) for path, one in found.items()}

    def read(self, name: str, *, most: int) -> bytes:
        """All of an object; refused before it is read if it is larger than `most`."""
        with self._reached(name):
            size = int(self._files.info(f"{self._root}/{name}")["size"])
            if size > most:
                raise Damaged(f"{name} has {size:,} bytes; the most is {most:,}")
            return self._bytes(name, 0, size)

    def read_into(self, name: str, view: memoryview, at: int) -> None:
        """A part of an object."""
        with self._reached(name):
            data = self._bytes(name, at, at + len(view))
        if len(data) != len(view):
            raise Damaged(f"{name} ends too early")
        view[:] = data

    def create(self, name: str, data: bytes) -> bool:
        """Put an object unless there is one; false if there is."""
        with self._reached(name):
            try:
                self._files.pipe_file(
                    f"{self._root}/{name}", data, mode="create", chunksize=max(len(data), 1)
                )
            except FileExistsError:
                return False
        return True

    def upload(
        self, name: str, size: int, fill: Callable[[Callable[[memoryview], None]], None]
    ) -> None:
        """An object of `size` bytes that `fill` hands over; nothing appears if it fails."""
        part = max(PART_BYTES, -(-size // MOST_PARTS))
        with self._reached(name):
            file = self._files.open(f"{self._root}/{name}", "wb", block_size=part)
            try:
                fill(file.write)
                file.close()
            except BaseException:
                with suppress(Exception):
                    file.discard()
                file.closed = True
                raise

    def delete(self, name: str) -> None:
        with self._reached(name), suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")

    def _bytes(self, name: str, start: int, end: int) -> bytes:
        if start == end:
            return b""
        data: bytes = self._files.cat_file(f"{self._root}/{name}", start=start, end=end)
        return data

    @contextmanager
    def _reached(self, name: str) -> Iterator[None]:
        """Errors of the store, of its client and of the network as ours."""
        try:
            yield
        except (VaultError, Damaged):
            raise
        except FileNotFoundError as error:
            raise Damaged(f"{name or self.url} is not there") from error
        except Exception as error:
            if "Checksum" in type(error).__name__:  # the client has compared some by itself
                raise Damaged(f"{name} is not what was written: {str(error)[:120]}") from error
            raise VaultError(
                f"{self.url}/{name} cannot be used: {str(error)[:200] or type(error).__name__}",
                hint="see whether AWS_ENDPOINT_URL, the credentials and the bucket are right",
            ) from error
