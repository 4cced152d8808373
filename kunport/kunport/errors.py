"""The errors that users see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kunport.description import Unknown


class KunportError(Exception):
    """The input or the call is wrong. One sentence saying what, and the cure.

    The command line prints both on one line and exits with status 2.
    """

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(f"{problem} {cure}")
        self.problem = problem
        self.cure = cure


class NotPortableError(Exception):
    """The model was read, and something in it is not understood or has no place in the engine yet.

    The command line prints what that is, with file and line of the source, and exits with status 1.
    """

    def __init__(self, unknowns: Sequence[Unknown]) -> None:
        super().__init__("\n".join(map(str, unknowns)))
        self.unknowns = tuple(unknowns)
