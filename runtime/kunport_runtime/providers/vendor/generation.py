"""The generations of the vendor's wheels: one table each, of what an operator is called there.

A new generation is a file in `generations/`; a wheel that only renames is a line in one. The keys of ``operators``
are kunport's words for the vendor's operators (the names of the newest generation); ``path`` is where one lies, and
``keywords`` its arguments that are called something else. ``decode_batch`` is the largest batch of one query each
that is known to run. ``before`` lists packages whose import registers operators, where they are installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "generations"


@dataclass(frozen=True, slots=True)
class Symbol:
    """Where an operator lies, and how its keywords differ.

    Attributes:
        path: dotted, from a module that can be imported.
        keywords: kunport's keyword -> the one of this generation.
    """

    path: str
    keywords: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of wheels.

    Attributes:
        module: what is imported.
        distribution: what is installed.
        order: larger is newer.
        before: modules to import first, where they are there.
        decode_batch: the largest batch of a decode operator.
        operators: kunport's name -> symbol.
    """

    module: str
    distribution: str
    order: int
    before: tuple[str, ...]
    decode_batch: int
    operators: Mapping[str, Symbol]


def read_generation(path: Path) -> Generation:
    """The table of a file."""
    table = json.loads(path.read_text(encoding="utf-8"))
    operators = {name: Symbol(entry["path"], entry.get("keywords", {})) for name, entry in table["operators"].items()}
    return Generation(
        table["module"],
        table["distribution"],
        table["order"],
        tuple(table["before"]),
        table["decode_batch"],
        operators,
    )


@cache
def known_generations() -> tuple[Generation, ...]:
    """All that there is a table of, the newest first."""
    found = [read_generation(path) for path in FOLDER.glob("*.json")]
    return tuple(sorted(found, key=lambda each: -each.order))
