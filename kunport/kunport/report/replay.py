"""A replay of evidence, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kunport.validation.evidence import Replay

_SHOWN = 10  # of a list that can be long


def lines(replay: Replay) -> Iterator[str]:
    """The verdict of the replay, then what is not as it was."""
    then, now, name = replay.evidence.verdict, replay.report.verdict, replay.evidence.architecture
    if replay.identical:
        yield f"Confirmed: {name}, {now}, and all {replay.total} answers are the same to the last bit."
    elif replay.confirmed:
        yield f"Confirmed: {name}, {now}, with {len(replay.outputs)} of {replay.total} answers not the same."
    elif replay.altered:
        yield f"Not confirmed: the folder is not what was written. It says {then}; its contents now: {now}."
    else:
        yield f"Not confirmed: the verdict was {then} and is {now}."
    for title, changes in (
        ("Altered files", replay.altered),
        ("Changed", [f"{each.what}: {each.then} -> {each.now}" for each in replay.changes]),
        ("Answers", [f"{each.what}: {each.now}" for each in replay.outputs]),
    ):
        if changes:
            yield f"{title}"
            yield from (f"  {each}" for each in changes[:_SHOWN])
            if len(changes) > _SHOWN:
                yield f"  and {len(changes) - _SHOWN} more"
