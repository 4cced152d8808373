"""The error that users of the runtime see."""

from __future__ import annotations


class KunportRuntimeError(Exception):
    """Something cannot be done. One sentence saying why, and the cure."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(f"{problem} {cure}")
        self.problem = problem
        self.cure = cure
