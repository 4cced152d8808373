"""From conversions and names to the renames of a graph."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from kunport_codegen.graph import Rename

from kunport.analysis.renames.conversion import Conversion
from kunport.analysis.renames.conversion_table import legacy_conversions
from kunport.analysis.renames.generalization import Origin, gathered_pattern, general_renames


@dataclass(slots=True)
class Names:
    """How a checkpoint's names and a module tree's meet.

    Attributes:
        renames: the differences; a name of the tree that no rename makes is the same on disk.
        unused: names of the checkpoint that no tensor of the tree takes.
        missing: names of the tree that the checkpoint does not fill (a tied head, say).
    """

    renames: list[Rename]
    unused: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def as_saved(conversions: Sequence[Conversion], state: Collection[str]) -> Names:
    """The renames from what ``save_pretrained`` writes for a tree with these tensors."""
    origins = {name: _saved_origin(conversions, name) for name in state}
    return Names(general_renames(origins))


def from_checkpoint(
    conversions: Sequence[Conversion], base: str, state: Collection[str], checkpoint: Collection[str]
) -> Names:
    """The renames from the names that a checkpoint has, found as loading finds them.

    ``state`` are the names of the tree's parameters and saved buffers, ``base`` the name of the base model in it: a
    checkpoint of the base model alone lacks it, and a tree of the base model alone lacks what the checkpoint has.
    """
    known = set(state)
    origins: dict[str, Origin] = {}
    gathered: dict[str, dict[str, list[str]]] = {}
    unused = []
    for name in sorted(checkpoint, key=_natural):
        reached, source, conversion = _loaded_names(conversions, name)
        if _with_base(reached[0], base, known) not in known:  # the table of old names is only parsed where one may help
            reached, source, conversion = _loaded_names([*conversions, *legacy_conversions()], name)
        reached = [_with_base(each, base, known) for each in reached]
        if reached[0] not in known and name in known:  # in the tree's own form already
            reached, conversion = [name], None
        if reached[0] not in known and (other := _with_base(name, base, known)) in known:
            reached, conversion = [other], None
        if reached[0] not in known:
            unused.append(name)
        elif conversion is None:
            origins[reached[0]] = Origin([name])
        else:
            for index, each in enumerate(reached):
                gathered.setdefault(each, {}).setdefault(source, []).append(name)
                origins[each] = Origin([], _operations(conversion, index))
    rank = {source: index for index, source in enumerate(pattern for each in conversions for pattern in each.sources)}
    for target, by_source in gathered.items():
        for source in sorted(by_source, key=rank.__getitem__):
            origins[target].sources.append(gathered_pattern(by_source[source], source))
    return Names(general_renames(origins), unused, sorted(known - set(origins), key=_natural))


def _saved_origin(conversions: Sequence[Conversion], name: str) -> Origin:
    """Saving reverts the conversions from the last to the first: one with operations, then all renamings."""
    backwards = [each for each in reversed(conversions) if not each.prefix]
    names = [name]
    operations: tuple[str, ...] = ()
    for conversion in backwards:
        if conversion.operations and (found := conversion.to_checkpoint(name)):
            names, matched = found
            operations = _operations(conversion, conversion.targets.index(matched))
            break
    for conversion in backwards:
        if not conversion.operations:
            names = [found[0][0] if (found := conversion.to_checkpoint(each)) else each for each in names]
    return Origin(names, operations)


def _loaded_names(conversions: Sequence[Conversion], name: str) -> tuple[list[str], str, Conversion | None]:
    """Loading applies every renaming in turn, then the first conversion with operations that matches."""
    for conversion in conversions:
        if not conversion.operations and (found := conversion.to_module(name)):
            name = found[0][0]
    for conversion in conversions:
        if conversion.operations and (found := conversion.to_module(name)):
            return *found, conversion
    return [name], name, None


def _with_base(name: str, base: str, known: set[str]) -> str:
    """The name with the base model's name put before it or taken away, where that is what the tree has."""
    if base and name.removeprefix(f"{base}.") != name and name.removeprefix(f"{base}.") in known:
        return name.removeprefix(f"{base}.")
    return f"{base}.{name}" if base and f"{base}.{name}" in known else name


def _operations(conversion: Conversion, target: int) -> tuple[str, ...]:
    """The operations as the graph has them: a chunk says which of how many is meant."""
    count = len(conversion.targets)
    return tuple(f"{each},{target},{count}" if each.startswith("chunk:") else each for each in conversion.operations)


def _natural(name: str) -> list[Any]:
    """A key that orders numbers by their value."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
