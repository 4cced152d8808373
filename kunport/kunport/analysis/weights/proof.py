"""The proof that a checkpoint is the model's: each key used once, each tensor filled, each shape right."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Graph

from kunport.analysis.checkpoint import StoredTensor
from kunport.analysis.weights.fillings import Filling, fillings
from kunport.analysis.weights.ranks import Ranks, tensor_parallel
from kunport.analysis.weights.sizes import MisfitError, Shape, UnknownOperationError, combined
from kunport.errors import KunportError

MISSING, UNUSED, REPEATED, MISSHAPEN = "missing", "unused", "repeated", "misshapen"
_LONGEST = 300  # characters of an expression or a key that are matched
_OLD_TABLES = r"rotary_emb\.inv_freq"  # which checkpoints of old versions have; loading leaves them aside everywhere


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that does not fit.

    Attributes:
        kind: ``missing`` (a tensor of the model that nothing fills), ``unused`` (a key that fills nothing),
            ``repeated`` (a key that fills several), ``misshapen``.
        name: path in the module tree of a tensor of the model, the key where it is one of the checkpoint.
        reason: with the shapes, keys or files that it is about.
    """

    kind: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.name} {self.reason}"


@dataclass(slots=True)
class WeightProof:
    """What headers prove about a checkpoint. Tensors of equal shape that were exchanged do not show in headers.

    Attributes:
        keys: number of tensors in the checkpoint.
        filled: number of the model's tensors that it fills, with the right shape.
        tied: tensors that the checkpoint lacks and another one fills.
        ignored: keys that the model's source says are to be left aside.
        faults: what does not fit.
        unproved: path -> why its shape is not known.
        ranks: over how many tensor-parallel ranks the model's tensors can be cut.
    """

    keys: int
    filled: int = 0
    tied: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    unproved: dict[str, str] = field(default_factory=dict)
    ranks: Ranks = field(default_factory=Ranks)

    @property
    def fits(self) -> bool:
        """Whether nothing was found that does not fit."""
        return not self.faults

    @property
    def proved(self) -> bool:
        """Whether it fits, and every shape was known."""
        return not self.faults and not self.unproved

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, verdict included."""
        verdict = "proved" if self.proved else "not wholly known" if self.fits else "does not fit"
        return {"verdict": verdict, **asdict(self)}


def check(graph: Graph, stored: Mapping[str, Shape], ignored: Iterable[str] = ()) -> WeightProof:
    """The proof for tensors of these names and shapes, without `WeightProof.ranks`.

    ``ignored`` are regular expressions of keys that loading leaves aside where nothing takes them.
    """
    proof = WeightProof(len(stored))
    found = list(fillings(graph.parameters, graph.renames, stored))
    filled = {filling.path for filling in found if filling.groups and all(filling.groups) and not filling.lacking}
    for filling in found:
        partner = _partner(graph, filling.path, filled)
        if filling.path in filled:
            _compare(proof, graph, filling, stored)
        elif not filling.keys and partner is not None:
            proof.tied.append(filling.path)
        elif graph.parameters[filling.path].initial is None:
            proof.faults.append(
                Fault(MISSING, filling.path, f"is not filled: there is no {', '.join(filling.lacking)}")
            )
    proof.faults += _uses(found, stored, [_OLD_TABLES, *ignored], proof.ignored)
    return proof


def prove(graph: Graph, stored: Mapping[str, StoredTensor], ignored: Iterable[str] = ()) -> WeightProof:
    """The whole proof for the tensors that `kunport.analysis.checkpoint.read_checkpoint` found."""
    proof = check(graph, {name: tensor.shape for name, tensor in stored.items()}, ignored)
    proof.ranks = tensor_parallel(graph)
    return proof


def _partner(graph: Graph, path: str, filled: set[str]) -> str | None:
    """A filled tensor that ``path`` shares its elements with."""
    sources = dict(graph.tied)
    source = sources.get(path, path)
    group = [source, *(other for other, each in graph.tied if each == source)]
    return next((other for other in group if other != path and other in filled), None)


def _compare(proof: WeightProof, graph: Graph, filling: Filling, stored: Mapping[str, Shape]) -> None:
    expected = tuple(unwrap(size) for size in graph.parameters[filling.path].shape)
    if not all(type(size) is int for size in expected):
        proof.unproved[filling.path] = "the source leaves its shape open"
        return
    try:
        shape = combined(filling.operations, [[stored[key] for key in group] for group in filling.groups])
    except UnknownOperationError as error:
        proof.unproved[filling.path] = f"loading it needs Transformers' {error}, whose effect on shapes is not known"
    except MisfitError as error:
        proof.faults.append(Fault(MISSHAPEN, filling.path, f"cannot be made of {_named(filling.keys)}: {error}"))
    else:
        if shape == expected:
            proof.filled += 1
        else:
            made = "" if filling.keys == [filling.path] else f" (it is made of {_named(filling.keys)})"
            reason = f"is {list(shape)}, and the configuration makes it {list(expected)}{made}"
            proof.faults.append(Fault(MISSHAPEN, filling.path, reason))


def _uses(
    found: Sequence[Filling], stored: Mapping[str, Shape], patterns: Sequence[str], ignored: list[str]
) -> Iterator[Fault]:
    """Keys that are not used once: by one tensor as a whole, or by several that take its parts."""
    users: dict[str, list[Filling]] = defaultdict(list)
    for filling in found:
        for key in filling.keys:
            users[key].append(filling)
    for key in stored:
        takers = users.get(key, [])
        if not takers:
            if _matches(patterns, key):
                ignored.append(key)
            else:
                yield Fault(UNUSED, key, "has no place in the model")
        elif len(takers) > 1 and not _parts(takers):
            yield Fault(REPEATED, key, f"fills {', '.join(taker.path for taker in takers)}")


def _parts(takers: Sequence[Filling]) -> bool:
    """Whether each takes a part of its own."""
    parts = [taker.part for taker in takers]
    return all(parts) and len(set(parts)) == len(parts)


def _matches(patterns: Sequence[str], key: str) -> bool:
    return any(_harmless(pattern) and re.search(pattern, key[:_LONGEST]) for pattern in patterns)


def _harmless(pattern: str) -> bool:
    """Whether it is a valid expression that no name can make slow: without groups to repeat, and few repetitions."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return not re.search(r"\)[*+{?]", pattern) and len(re.findall(r"[*+{]", pattern)) <= 3 and len(pattern) <= _LONGEST


def _named(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{len(keys)} tensors, {keys[0]} for one"


def refuse_misfit(proof: WeightProof, folder: Path) -> None:
    """Raise `KunportError` about what keeps the weights from being loaded; keys that are not used do not.

    Raises:
        KunportError: a tensor of the model is not filled, or has another shape, or a key fills several.
    """
    missing = [fault for fault in proof.faults if fault.kind == MISSING]
    if missing:
        count = f"{len(missing)} tensors of the model, {missing[0].name} for one" if missing[1:] else missing[0].name
        raise KunportError(f"{folder} lacks {count}.", "Copy the checkpoint again, completely.")
    for fault in proof.faults:
        if fault.kind != UNUSED:
            raise KunportError(
                f"{fault.name} {fault.reason} ({folder}).", "Use weights and a config.json that belong together."
            )
