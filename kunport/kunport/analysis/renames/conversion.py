"""One conversion of Transformers: a rewriting of checkpoint names, with or without operations on the tensors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_LOOKAROUND = re.compile(r"\(\?(?:[^()]|\([^()]*\))*\)")
_GROUP = re.compile(r"\([^()]+\)")


@dataclass(frozen=True)
class Conversion:
    r"""Patterns of checkpoint names and the patterns that replace them.

    Attributes:
        sources: regular expressions that are searched for in a name; ``*.`` stands for any text and a dot.
        targets: what replaces the match, with at most one group ``\1``. Several targets share one source tensor,
            several sources one target.
        operations: what happens to the tensors, in the notation of `kunport_codegen.graph.Rename` but with
            ``chunk:DIM`` for all targets at once; () for a mere renaming.
        prefix: whether it adds or removes a part of every name, which saving does not revert.
        scope: the path of the sub-model that it applies to, None for the whole.
        base: the name that the root gives its base model; the scope is found in a name with or without it.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    operations: tuple[str, ...] = ()
    prefix: bool = False
    scope: str | None = None
    base: str = ""

    @cached_property
    def _rewriting(self) -> _Rewriting:
        return _Rewriting(self.sources, self.targets)

    @cached_property
    def _reversed(self) -> _Rewriting:
        return _Rewriting(self.targets, self.sources)

    def to_module(self, name: str) -> tuple[list[str], str] | None:
        """What a checkpoint's name becomes, one name for each target, and the source that matched; None if none did."""
        return self._apply(self._rewriting, name)

    def to_checkpoint(self, name: str) -> tuple[list[str], str] | None:
        """The reverse: names on disk, one for each source, and the target that matched."""
        return self._apply(self._reversed, name)

    def _apply(self, rewriting: _Rewriting, name: str) -> tuple[list[str], str] | None:
        for prefix in self._prefixes():
            if name.startswith(prefix):
                found = rewriting.apply(name.removeprefix(prefix))
                return None if found is None else ([prefix + each for each in found[0]], found[1])
        return None

    def _prefixes(self) -> list[str]:
        """The beginnings that a name may have to be in the scope, the longest first."""
        if self.scope is None:
            return [""]
        scope, base = (f"{part}." if part else "" for part in (self.scope, self.base))
        return [base + scope, scope]


class _Rewriting:
    r"""Sources to targets in one direction, with the rules by which Transformers makes one from the other.

    Either side may be written as a regular expression, because each serves as the pattern in one direction and as the
    replacement in the other: a replacement loses its anchors, its lookarounds and its escaped dots, and a group in it
    becomes ``\1``; a pattern gets the anchors of the replacement it belongs to, and a ``\1`` in it becomes the group.
    """

    def __init__(self, patterns: tuple[str, ...], replacements: tuple[str, ...]) -> None:
        groups = [match.group(0) for each in replacements if (match := _GROUP.search(_plain(each)))]
        self._replacements = [_GROUP.sub(r"\\1", _plain(each), count=1) for each in replacements]
        self._patterns = patterns
        paired = len(patterns) == len(replacements)
        branches = []
        for index, pattern in enumerate(patterns):
            branch = pattern.replace(r"\1", groups[0], 1) if groups else pattern
            if paired and replacements[index].startswith("^"):
                branch = "^" + branch.removeprefix("^")
            if paired and replacements[index].endswith("$"):
                branch = branch.removesuffix("$") + "$"
            branch = branch.replace("*.", r".*\.")
            branches.append(f"(?P<branch{index}>{branch})")
        self._regex = re.compile("|".join(branches))

    def apply(self, name: str) -> tuple[list[str], str] | None:
        match = self._regex.search(name)
        if match is None:
            return None
        branch = next(group for group, text in match.groupdict().items() if text is not None)
        results = []
        for replacement in self._replacements:
            if r"\1" in replacement:
                replacement = replacement.replace(r"\1", match.group(self._regex.groupindex[branch] + 1))
            results.append(name.replace(match.group(0), replacement, 1))
        return results, self._patterns[int(branch.removeprefix("branch"))]


def _plain(pattern: str) -> str:
    """A pattern as text to put in: no anchors, no lookarounds, dots unescaped."""
    return _LOOKAROUND.sub("", pattern.removeprefix("^").removesuffix("$")).replace(r"\.", ".")
