"""From the checkpoint's names to the adapter's: renames, and which shard of a packed layer a tensor is.

The rules are those of vLLM's ``WeightsMapper``, in the order in which it applies them. They are tried on every tensor
of the checkpoint before they are given out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kunport_codegen.graph import Graph, Rename
from kunport_codegen.lowering.flow import basename, parent
from kunport_codegen.lowering.ignored import Ignored, ignored
from kunport_codegen.lowering.members import Apart, Member, Regroup

Shard = str | int | None
_JOINED = "concatenate:0"
# Picks one of a map's tables.
Table = Callable[["WeightMap"], dict[str, str | None]]


class WeightMapError(Exception):
    """A tensor of the checkpoint cannot be brought to the adapter by names alone."""


@dataclass(slots=True)
class WeightMap:
    """How a checkpoint is loaded.

    Attributes:
        regexes, substrings, prefixes: renames, None for a tensor that the forward never reads.
        stacked: part of a name -> the packed layer's and the shard.
        packed: packed layer -> the names it has in the checkpoint.
        regroups: fused weights whose rows are to be reordered, each once for all layers (numbers as ``*``).
        transposed: endings of the names of matrices that lie as ``[inputs, outputs]``.
        apart: experts that are taken apart, each once for all layers.
        ignored: what is left aside where the model has no place for it.
    """

    regexes: dict[str, str | None] = field(default_factory=dict)
    substrings: dict[str, str | None] = field(default_factory=dict)
    prefixes: dict[str, str | None] = field(default_factory=dict)
    stacked: dict[str, tuple[str, Shard]] = field(default_factory=dict)
    packed: dict[str, list[str]] = field(default_factory=dict)
    regroups: list[Regroup] = field(default_factory=list)
    transposed: list[str] = field(default_factory=list)
    apart: list[Apart] = field(default_factory=list)
    ignored: Ignored = field(default_factory=Ignored)

    def map(self, name: str) -> tuple[str, Shard] | None:
        """What the loader makes of a name; None if it drops the tensor."""
        for pattern, text in self.regexes.items():
            if re.search(pattern, name):
                if text is None:
                    return None
                name = re.sub(pattern, text, name)
        for part, text in self.substrings.items():
            if part in name:
                if text is None:
                    return None
                name = name.replace(part, text, 1)
        shard: Shard = None
        for part, (text, index) in self.stacked.items():
            if part in name:
                name, shard = name.replace(part, text, 1), index
        for part, text in self.prefixes.items():
            if name.startswith(part):
                if text is None:
                    return None
                name = name.replace(part, text, 1)
        return name, shard


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor's name on disk, in the module tree and in the adapter, and its shard there. None: nothing reads it.

    ``joined`` where it is put behind others by the layer itself.
    """

    disk: str
    module: str
    target: str | None
    shard: Shard
    joined: bool = False


def weight_map(
    graph: Graph,
    members: Iterable[Member],
    raw: Iterable[str],
    regroups: Iterable[Regroup],
    transposed: Iterable[str] = (),
    wrapper: str = "",
) -> WeightMap:
    """The map for an adapter with these layers, which besides reads the parameters ``raw`` itself.

    ``transposed`` are paths of matrices to be turned, ``wrapper`` that of modules that the adapter does without.

    Raises:
        WeightMapError: a tensor is not brought to its place, or two are brought to one.
    """
    members = list(members)
    tensors = [_unwrapped(tensor, wrapper) for tensor in _tensors(graph, members, set(raw))]
    result = WeightMap()
    for member in members:
        if len(member.sources) > 1:
            result.packed.setdefault(member.name, [basename(source) for source in member.sources])
        elif member.returns == "pair" and member.factory in ("QKVParallelLinear", "MergedColumnParallelLinear"):
            result.packed.setdefault(member.name, [member.name])
    _stack(result, members, tensors)
    _rename(result, tensors)
    _drop(result, tensors)
    for regroup in regroups:
        general = _general(regroup.path)
        if general not in (known.path for known in result.regroups):
            result.regroups.append(Regroup(general, regroup.groups, regroup.sizes, regroup.order, regroup.heads))
    result.apart = list(dict.fromkeys(_general_apart(member.apart) for member in members if member.apart is not None))
    result.transposed = _transposed(set(transposed), tensors)
    _check(result, tensors)
    result.ignored = ignored(graph.ignored, result.map)
    return result


def _tensors(graph: Graph, members: list[Member], raw: set[str]) -> Iterable[_Tensor]:
    places = {
        source: (member.path, shard if len(member.sources) > 1 else None)
        for member in members
        for source, shard in zip(member.sources, _shards(member), strict=True)
    }
    joining = {member.path for member in members if "parts" in member.kwargs}
    own = {
        path: f"{member.path}.bias" if member.returns == "pair" else f"{parent(member.path)}.{basename(path)}"
        for member in members
        for path in member.tensors.values()
    }
    singles = {
        name: [f"{member.path}.{single}" for single in found]
        for member in members
        if member.apart is not None
        for name in graph.parameters
        if (found := member.apart.singles(name)) is not None
    }
    tied = {first for first, _ in graph.tied} & {name for name in graph.parameters if basename(parent(name)) != ""}
    for name in graph.parameters:
        place = places.get(parent(name))
        if (taken := singles.get(name)) is not None:
            for single in taken:
                yield _Tensor(single, single, single, None)
            continue
        for disk, module, part in _on_disk(graph, name, joined=parent(name) in joining):
            if part is not None and place is not None:
                yield _Tensor(disk, module, f"{place[0]}.{basename(name)}", part, joined=True)
            elif name in own:
                yield _Tensor(disk, module, own[name], None)
            elif place is not None:
                yield _Tensor(disk, module, place[0] + module[len(parent(name)) :], place[1])
            elif name in raw:
                yield _Tensor(disk, module, module, None)
            elif name not in tied:
                yield _Tensor(disk, module, None, None)


def _general_apart(apart: Apart) -> Apart:
    return replace(apart, gate_up=_general(apart.gate_up), down=_general(apart.down), biases=())


def _unwrapped(tensor: _Tensor, wrapper: str) -> _Tensor:
    if not wrapper or tensor.target is None:
        return tensor
    return replace(tensor, target=tensor.target.removeprefix(f"{wrapper}."))


def _shards(member: Member) -> list[Shard]:
    return (
        list("qkv")
        if member.factory == "QKVParallelLinear" and len(member.sources) == 3
        else list(range(len(member.sources)))
    )


def parts_on_disk(graph: Graph, name: str) -> int:
    """How many tensors of the checkpoint make up a parameter by being put behind one another; 1 where one is it."""
    found = (rename for rename in graph.renames if _match(rename.target, name) is not None)
    return next((len(rename.sources) for rename in found if rename.operations == (_JOINED,)), 1)


def _on_disk(graph: Graph, name: str, *, joined: bool) -> Iterable[tuple[str, str, Shard]]:
    """The tensors on disk that make up a parameter, and their names as if they were in its module.

    Where they are put behind one another, and the layer does that (``joined``), their own names and their places.
    """
    for rename in graph.renames:
        numbers = _match(rename.target, name)
        if numbers is None:
            continue
        if not rename.operations:
            yield _fill(rename.sources[0], numbers), name, None
            return
        if joined and rename.operations == (_JOINED,):
            for place, source in enumerate(rename.sources):
                yield _fill(source, numbers), _fill(source, numbers), place
            return
        if "stack" not in rename.operations:
            raise WeightMapError(f"{name} is made of {', '.join(rename.sources)} by {', '.join(rename.operations)}")
        for source in rename.sources:
            disk = _fill(source, [*numbers, "0"])
            yield disk, f"{parent(name)}.{_experts_tail(rename, source, numbers)}", None
        return
    yield name, name, None


def _experts_tail(rename: Rename, source: str, numbers: list[str]) -> str:
    """``0.w1.weight``: what a single expert's tensor is called below the experts."""
    return _fill(source[source.rindex("*") :], ["0"])


def _match(pattern: str, name: str) -> list[str] | None:
    found = re.fullmatch(re.escape(pattern).replace(r"\*", r"(\d+)"), name)
    return list(found.groups()) if found else None


def _fill(pattern: str, numbers: list[str]) -> str:
    pieces = pattern.split("*")
    return "".join(piece + number for piece, number in zip(pieces, [*numbers, *[""] * len(pieces)], strict=False))


def _general(name: str) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)


def _alike(old: str, new: str) -> tuple[str, str]:
    """Two names with ``*`` for the numbers that both have: all of them, or else those of their common beginning."""
    if _general(old).count("*") == _general(new).count("*"):
        return _general(old), _general(new)
    before, after = old.split("."), new.split(".")
    same = next(place for place, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
    beginning = _general(".".join(before[:same]))
    return tuple(".".join([beginning, *parts[same:]]) for parts in (before, after))  # type: ignore[return-value]


def _stack(result: WeightMap, members: list[Member], tensors: list[_Tensor]) -> None:
    """Name each shard by the shortest part of its path that no other tensor has."""
    for tensor in tensors:
        if tensor.joined and tensor.target is not None:
            part, text = (f".{basename(parent(name))}" for name in (tensor.disk, tensor.target))
            others = [other for other in tensors if part in f".{other.module}" and other.shard != tensor.shard]
            if part != text and not others:
                result.stacked[part] = (text, tensor.shard)
    for member in members:
        if len(member.sources) < 2:
            continue
        for source, shard in zip(member.sources, _shards(member), strict=True):
            for part, text in _parts_of(source, member.name):
                if part in result.stacked or not any(piece.isdigit() for piece in part.split(".")):
                    wrong = [
                        tensor
                        for tensor in tensors
                        if part in f".{tensor.module}" and (tensor.target is None or tensor.shard != shard)
                    ]
                    if not wrong:
                        result.stacked[part] = (text, shard)
                        break
            else:
                raise WeightMapError(f"{source} cannot be told from other tensors by a part of its name")


def _parts_of(source: str, name: str) -> Iterable[tuple[str, str]]:
    """Parts of a path from its end on, and the same with another last name; then with the dot that follows, too.

    The dot tells a name from one that it is the beginning of.
    """
    for dot in ("", "."):
        for start in range(source.count("."), -1, -1):
            part = "." + ".".join(source.split(".")[start:])
            yield f"{part}{dot}", f"{part.rpartition('.')[0]}.{name}{dot}"


def _rename(result: WeightMap, tensors: list[_Tensor]) -> None:
    for tensor in tensors:
        if tensor.target is None or result.map(tensor.disk) == (tensor.target, tensor.shard):
            continue
        wanted = tensor.module if tensor.shard is not None else tensor.target
        for table, old, new in _rules(tensor.disk, wanted):
            if old in table(result):
                continue
            table(result)[old] = new
            if result.map(tensor.disk) == (tensor.target, tensor.shard) and _harmless(result, tensors, old):
                break
            del table(result)[old]
        else:
            old, new = _alike(tensor.disk, wanted)
            pattern = "^" + re.escape(old).replace(r"\*", r"(\d+)") + "$"
            first, *rest = new.split("*")
            result.regexes[pattern] = first + "".join(rf"\{number}{part}" for number, part in enumerate(rest, 1))


def _harmless(result: WeightMap, tensors: list[_Tensor], old: str) -> bool:
    """Whether a new rule leaves every tensor alone that is where it belongs without it."""
    return all(
        tensor.target is None
        or old not in f".{tensor.disk}"
        or tensor.disk != tensor.module
        or result.map(tensor.disk) == (tensor.target, tensor.shard)
        for tensor in tensors
    )


def _rules(old: str, new: str) -> Iterable[tuple[Table, str, str]]:
    """Ways to say how one name becomes the other, the shortest first: a prefix or a part between two dots."""
    before, after = old.split("."), new.split(".")
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    for widen in range(min(start, 3) + 1):
        first = start - widen
        for last in (end, end - 1):
            if last < 1:
                continue
            old_part, new_part = (".".join(parts[first : len(parts) - last]) for parts in (before, after))
            if not old_part or not new_part or re.search(r"(^|\.)\d+(\.|$)", old_part + "." + new_part):
                continue
            if first == 0:
                yield _prefixes, f"{old_part}.", f"{new_part}."
            else:
                yield _substrings, f".{old_part}.", f".{new_part}."


def _prefixes(result: WeightMap) -> dict[str, str | None]:
    return result.prefixes


def _substrings(result: WeightMap) -> dict[str, str | None]:
    return result.substrings


def _drop(result: WeightMap, tensors: list[_Tensor]) -> None:
    """Tensors that the forward never reads are not loaded."""
    for tensor in tensors:
        if tensor.target is None and result.map(tensor.disk) is not None:
            pattern = "^" + re.escape(_general(tensor.disk)).replace(r"\*", r"\d+") + "$"
            result.regexes[pattern] = None


def _transposed(paths: set[str], tensors: list[_Tensor]) -> list[str]:
    """The endings that tell these matrices from all other tensors."""
    endings = dict.fromkeys(_general(tensor.disk).rpartition("*")[2] for tensor in tensors if tensor.module in paths)
    for tensor in tensors:
        if tensor.module not in paths and tensor.disk.endswith(tuple(endings)):
            raise WeightMapError(f"{tensor.disk} cannot be told from matrices that lie the other way round")
    return list(endings)


def _check(result: WeightMap, tensors: list[_Tensor]) -> None:
    taken: dict[tuple[str, Shard], str] = {}
    for tensor in tensors:
        mapped = result.map(tensor.disk)
        wanted = (tensor.target, tensor.shard) if tensor.target is not None else None
        if mapped != wanted:
            raise WeightMapError(f"{tensor.disk} would be loaded as {mapped}, and is {wanted}")
        if mapped is not None and taken.setdefault(mapped, tensor.disk) != tensor.disk:
            raise WeightMapError(f"{tensor.disk} and {taken[mapped]} would both be loaded as {mapped[0]}")
