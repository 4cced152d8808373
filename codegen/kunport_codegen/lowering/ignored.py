"""Tensors that the source says are to be left aside where the model has no place for them, as the loader is told.

The source has regular expressions, which Transformers searches for in names. vLLM's ``AutoWeightsLoader`` has
beginnings and endings, and asks them only of what the model has no module or parameter for, by its path up to there:
so no tensor of the model is ever left aside, whatever the expressions are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

# A literal, an anchor before it and a tail that is all the same after it. A dot is meant as one, escaped or not.
_PATTERN = re.compile(
    r"(?P<anchor>\^|\(\^\|\\\.\)|\(\?:\^\|\\\.\)|\.\*)?(?P<text>(?:\w|\\?\.)+?)(?P<tail>\.\*)?", re.ASCII
)
# A name -> what the loader makes of it, with its shard; None where it is dropped anyway.
Map = Callable[[str], tuple[str, str | int | None] | None]


@dataclass(slots=True)
class Ignored:
    """What is left aside where the model has no place for it.

    Attributes:
        prefixes, suffixes: beginnings and endings of names in the adapter.
        untold: expressions of the source that cannot be said so; what they mean is refused like any other tensor.
    """

    prefixes: list[str] = field(default_factory=list)
    suffixes: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)


def ignored(patterns: Iterable[str], renamed: Map) -> Ignored:
    """The expressions as beginnings and endings, which cover no name that their expression does not.

    An expression that may match anywhere becomes an ending, and a beginning as well where it says that more may follow.
    The loader puts a dot after a path, so one at the end of an expression is found at the end of a name too.
    """
    result = Ignored()
    for pattern in patterns:
        found = _PATTERN.fullmatch(pattern)
        text = found["text"].replace("\\", "") if found is not None else ""
        first, inner = renamed(text), renamed(f".{text}")
        if (
            found is None
            or not text.strip(".")
            or any(name is not None and name[1] is not None for name in (first, inner))
        ):
            result.untold.append(pattern)
            continue
        anchor = found["anchor"] or ""
        if first is not None and (anchor.startswith(("^", "(")) or found["tail"]):
            result.prefixes.append(first[0])
        if inner is not None and anchor != "^":
            result.suffixes.append(inner[0] if anchor.startswith("(") else inner[0].removeprefix("."))
    result.prefixes, result.suffixes = list(dict.fromkeys(result.prefixes)), list(dict.fromkeys(result.suffixes))
    return result
