"""How running source stops short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class NotUnderstoodError(Exception):
    """The analysis cannot go on here; ``reason`` completes "not understood: ...". Contained at the nearest call."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RaisedError(Exception):
    """The source raises an exception of this name."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(f"{name}: {message}" if message else name)
        self.name = name
        self.message = message


@dataclass(frozen=True, slots=True)
class Return:
    value: Any


class Break:
    """A loop ends."""


class Continue:
    """A loop goes on with its next turn."""


@dataclass(frozen=True, slots=True)
class Unless:
    """What follows in a turn only runs where the tensor ``test`` is false: only the data tell."""

    test: Any


BREAK, CONTINUE = Break(), Continue()
Signal = Return | Break | Continue | Unless
