"""The one error that users see."""

from __future__ import annotations


class KunportError(Exception):
    """The input or the call is wrong. One sentence saying what, and the cure.

    The command line prints both on one line and exits with status 2.
    """

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(f"{problem} {cure}")
        self.problem = problem
        self.cure = cure
