"""Accounts of this machine, and what a process needs to run under one."""

import grp
import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from weft.local.record.entry import Owner

DEFAULT_SHELL: Final = "/bin/sh"
NOBODY: Final = "nobody"
NOBODY_UID: Final = 65534


@dataclass(frozen=True, slots=True)
class Account:
    """What the system knows of a user."""

    owner: Owner
    home: str
    shell: str
    groups: tuple[int, ...]

    @classmethod
    def of(cls, owner: Owner) -> "Account":
        try:
            found = pwd.getpwuid(owner.uid)
        except KeyError:
            return cls(owner, "/", DEFAULT_SHELL, (owner.gid,))
        groups = tuple(os.getgrouplist(found.pw_name, owner.gid))
        return cls(owner, found.pw_dir or "/", found.pw_shell or DEFAULT_SHELL, groups)

    @property
    def switch(self) -> Mapping[str, Any]:
        """Arguments of `subprocess.Popen` for this account; a daemon without root has its own."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.owner.uid, "group": self.owner.gid, "extra_groups": self.groups}


def ordinary_account(group: str | None = None) -> Account:
    """The account with the fewest rights that the daemon serves: `nobody`, in that group."""
    try:
        uid = pwd.getpwnam(NOBODY).pw_uid
    except KeyError:
        uid = NOBODY_UID
    gid = uid
    if group is not None:
        with suppress(KeyError):
            gid = grp.getgrnam(group).gr_gid
    return Account(Owner(NOBODY, uid, gid), "/", DEFAULT_SHELL, (gid,))
