"""What a case is: an attack, the same where it is allowed, and how to tell from outside what came of each."""

from dataclasses import dataclass, field
from typing import Callable


@dataclass(frozen=True)
class Policy:
    """What each sandbox is asked for, in the terms that all of them have. Paths are relative to the world.

    All can be read but `deny_read`; nothing is written but `write`, without `deny_write`; no network.
    """

    write: tuple = ("work",)
    deny_write: tuple = ("work/protected",)
    deny_read: tuple = ("home/.ssh", "work/.env", "work/.tool")
    # Servers of the command's own, on loopback.
    local: bool = False
    # Unix sockets that may be reached.
    sockets: tuple = ()
    # Hosts that may be reached, by name.
    hosts: tuple = ()
    # Processes outside are hidden.
    own_processes: bool = False
    # What protects a work tree from what other tools run: a preset, in the terms of who has one.
    preset: bool = False
    # The preset knows where keys and tokens are.
    secrets: bool = False


@dataclass
class Case:
    group: str
    name: str
    attack: str
    escaped: Callable
    # The counterpart, which a sandbox that is dead would refuse, too.
    allowed: str
    worked: Callable
    policy: Policy = field(default_factory=Policy)
    # Prepares a world; what it returns are names that the code finds.
    setup: Callable = lambda world: {}
    # Runs on a terminal of its own, with the caller as the leader of its session.
    terminal: bool = False
    # SECURITY.md says that landstrip does not contain it.
    is_told: bool = False


def once(code):
    """The counterpart of an attack that races: the names are exchanged once, before."""
    return code.replace("swapping(", "swapped(")
