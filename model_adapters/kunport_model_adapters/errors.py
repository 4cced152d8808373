"""The one error that users of adapters see."""

from __future__ import annotations


class AdapterError(Exception):
    """An adapter cannot be used, or not for this checkpoint. One sentence saying why, and the cure."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(f"{problem} {cure}")
        self.problem = problem
        self.cure = cure
