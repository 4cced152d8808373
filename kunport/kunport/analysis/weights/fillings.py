"""Which keys of a checkpoint make each tensor of the model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kunport_codegen.graph import Rename

_NUMBER = re.compile(r"(?<!\d)\d{1,9}(?!\d)")


@dataclass(frozen=True, slots=True)
class Filling:
    """What fills one tensor of the model.

    Attributes:
        path: the tensor's, in the module tree.
        groups: for each source of the rename its keys, in the order of the number that it gathers over.
        lacking: patterns of sources that no key matches, and keys in the gaps of a numbering.
        operations: from the keys' tensors to the model's.
    """

    path: str
    groups: tuple[tuple[str, ...], ...]
    lacking: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()

    @property
    def keys(self) -> list[str]:
        return [key for group in self.groups for key in group]

    @property
    def part(self) -> str:
        """Which part of its keys' tensors it takes: an operation ``chunk``, "" for the whole."""
        return next((each for each in self.operations if each.startswith("chunk:")), "")


def fillings(paths: Iterable[str], renames: Sequence[Rename], keys: Collection[str]) -> Iterator[Filling]:
    """The filling of each path, by the first rename that makes it, else the key of the same name."""
    targets = [(re.compile(_numbered(rename.target)), rename) for rename in renames]
    gathered = _Gathering(keys)
    for path in paths:
        for pattern, rename in targets:
            if found := pattern.fullmatch(path):
                yield _filling(path, rename, found.groups(), gathered)
                break
        else:
            yield Filling(path, ((path,),)) if path in gathered.keys else Filling(path, (), (path,))


def _filling(path: str, rename: Rename, numbers: Sequence[str], gathered: _Gathering) -> Filling:
    sources = [_with_numbers(source, numbers) for source in rename.sources]
    found = [gathered.of(source) for source in sources]
    # What one source gathers, each of them must have; and the numbers begin at 0.
    wanted = set(range(max(map(len, found)))).union(*found)
    lacking = []
    for source, keys in zip(sources, found, strict=True):
        if not keys:
            lacking.append(source)
        elif "*" in source:
            lacking += [source.replace("*", str(number)) for number in sorted(wanted - set(keys))]
    groups = tuple(tuple(key for _, key in sorted(keys.items())) for keys in found)
    return Filling(path, groups, tuple(lacking), rename.operations)


def _with_numbers(source: str, numbers: Sequence[str]) -> str:
    for number in numbers[: source.count("*")]:
        source = source.replace("*", number, 1)
    return source


class _Gathering:
    """Keys by the pattern with one of their numbers left out, made when a pattern first asks for it."""

    def __init__(self, keys: Collection[str]) -> None:
        self.keys = set(keys)
        self._by_pattern: dict[str, dict[int, str]] | None = None

    def of(self, source: str) -> dict[int, str]:
        """Number -> key, for a pattern with one ``*``; {0: key} for a key itself."""
        if "*" not in source:
            return {0: source} if source in self.keys else {}
        if self._by_pattern is None:
            self._by_pattern = {}
            for key in self.keys:
                for number in _NUMBER.finditer(key):
                    pattern = f"{key[: number.start()]}*{key[number.end() :]}"
                    self._by_pattern.setdefault(pattern, {})[int(number[0])] = key
        return self._by_pattern.get(source, {})


def _numbered(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", r"(\d+)")
