"""From single tensors to patterns: what holds for every layer is said once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kunport_codegen.graph import Rename


@dataclass(slots=True)
class Origin:
    """Where one tensor of the tree comes from: names on disk, with ``*`` only for a number that is gathered over."""

    sources: list[str]
    operations: tuple[str, ...] = ()


def gathered_pattern(names: list[str], source: str) -> str:
    """What names have in common that a conversion gathers into one tensor: ``*`` for the number they differ in.

    ``source`` is the conversion's pattern; it tells which number a single name would differ in.
    """
    if len(names) == 1:
        match = re.search(source.replace("*", r"(?P<number>\d+)", 1), names[0])
        if match is None or "number" not in match.groupdict():
            return names[0]
        return names[0][: match.start("number")] + "*" + names[0][match.end("number") :]
    columns = list(zip(*(re.split(r"(\d+)", name) for name in names), strict=True))
    return "".join(column[0] if len(set(column)) == 1 else "*" for column in columns)


def general_renames(origins: Mapping[str, Origin]) -> list[Rename]:
    """The renames of a tree, most general first seen first, without those that change nothing.

    Numbers become ``*`` where that says the same about every name: one that a pattern would be wrong about leaves all
    that the pattern covers with their own numbers.
    """
    exact = {target: Rename(tuple(origin.sources), target, origin.operations) for target, origin in origins.items()}
    general = {target: _general(rename) for target, rename in exact.items()}

    by_name = _by_source(exact, general)
    by_pattern = _by_source(general, general)
    pattern_of = {
        source: pattern
        for target, rename in exact.items()
        for source, pattern in zip(rename.sources, general[target].sources, strict=True)
    }
    wrong = {
        rename for name, renames in by_name.items() for rename in by_pattern[pattern_of[name]] if rename not in renames
    }
    chosen = dict.fromkeys(exact[target] if general[target] in wrong else general[target] for target in exact)
    return [rename for rename in chosen if rename.operations or rename.sources != (rename.target,)]


def _by_source(renames: Mapping[str, Rename], meaning: Mapping[str, Rename]) -> dict[str, set[Rename]]:
    """Source -> what is said about it, over all targets."""
    found: dict[str, set[Rename]] = {}
    for target, rename in renames.items():
        for source in rename.sources:
            found.setdefault(source, set()).add(meaning[target])
    return found


def _general(rename: Rename) -> Rename:
    """Numbers as ``*``, where each source has those of the target in order, before any that is gathered over."""
    numbers = _numbers(rename.target)
    for source in rename.sources:
        before, _, after = source.partition("*")
        if _numbers(before) != numbers or _numbers(after):
            return rename
    return Rename(tuple(map(_starred, rename.sources)), _starred(rename.target), rename.operations)


def _numbers(name: str) -> list[str]:
    return [part for part in name.split(".") if part.isdigit()]


def _starred(name: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in name.split("."))
