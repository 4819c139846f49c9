"""A line of a list of commands; plain, because whoever asks what there is loads it."""


class Entry:
    """Where a command lives (`module:name`), its line in the list, and that list's heading."""

    __slots__ = ("help", "section", "where")

    def __init__(self, where: str, help: str, section: str = "Commands") -> None:
        self.where = where
        self.help = help
        self.section = section
