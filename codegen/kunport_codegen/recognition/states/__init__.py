"""Operators with a state of each sequence: what the source spells out, proved to be an operator of the runtime.

A convolution is known by its form. The others are reference implementations of many steps (chunks, padding, loops over
positions), each written in its own way, so they are known by their numbers: `trial` evaluates what the source computes
on random inputs, `formulas` what an operator computes, token by token, and the two must be equal. A file for each
family says which tensors may play which part.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from kunport_codegen.facts import Mixer, Number, StateOperator
from kunport_codegen.graph import Node
from kunport_codegen.recognition.index import Index

from .convolutions import find_convolutions, find_shifts
from .exponential_gates import find_mlstm
from .memories import find_gated_delta, find_linear_attention
from .recurrences import find_rg_lru, find_rwkv
from .scans import find_mamba1, find_mamba2
from .tokens import axes
from .trial import Found, Trial, outputs, run

_Find = Callable[[Trial], Found | None]

# Family of a mixer -> the operator, what tokens meet in, and what finds its parts.
_FAMILIES: dict[str, tuple[str, tuple[str, ...], _Find]] = {
    "mamba": ("mamba1_scan", ("loop",), find_mamba1),
    "mamba2": ("mamba2_scan", ("cumsum", "loop"), find_mamba2),
    "gated_delta": ("gated_delta_rule", ("cumsum",), find_gated_delta),
    "linear": ("linear_attention", ("matmul",), find_linear_attention),
    "mlstm": ("mlstm", ("loop", "cumsum", "maximum"), find_mlstm),
    "rg_lru": ("rg_lru", ("loop",), find_rg_lru),
    "rwkv": ("rwkv", ("loop",), find_rwkv),
}
# The operator's inputs whose sizes its state has, in the order in which a layer is made with them.
_SIZES: dict[str, dict[str, tuple[str, int]]] = {
    "mamba1_scan": {"channels": ("a", 0), "state_size": ("a", 1)},
    "mamba2_scan": {"heads": ("x", -2), "head_dim": ("x", -1), "state_size": ("b", -1)},
    "gated_delta_rule": {"heads": ("value", -2), "key_dim": ("key", -1), "value_dim": ("value", -1)},
    "mlstm": {"heads": ("value", -2), "key_dim": ("key", -1), "value_dim": ("value", -1)},
    "rg_lru": {"channels": ("x", -1)},
    "rwkv": {"channels": ("value", -1)},
    "linear_attention": {"heads": ("value", -2), "key_dim": ("key", -1), "value_dim": ("value", -1)},
}


def find_states(index: Index, mixers: list[Mixer]) -> list[StateOperator]:
    """The state operators of a graph, in order."""
    found = [*find_convolutions(index), *find_shifts(index)]
    results = {each.output for each in found}
    for mixer in mixers:
        if mixer.kind in _FAMILIES:
            state = _state(index, mixer, results)
            found += [] if state is None else [state]
    return sorted(found, key=lambda each: index.order[each.output])


def _state(index: Index, mixer: Mixer, results: set[int]) -> StateOperator | None:
    """The operator in a mixer; None where no tensor in it is proved to be one's result."""
    kind, ops, find = _FAMILIES[mixer.kind]
    nodes = [index.nodes[each] for each in mixer.nodes if each in index.live]
    anchors = [node for node in nodes if node.op in ops]
    if _is_unrolled(index, nodes):
        return None
    trial: Trial | None = None
    for output in outputs(index, anchors):
        trial = run(index, output, results) if trial is None else trial.at(output)
        with np.errstate(all="ignore"):  # what plays another part than it is tried in may grow without bounds
            found = None if trial is None else find(trial)
        if found is not None and trial is not None:
            return _fact(index, kind, output, trial, found)
    return None


def _fact(index: Index, kind: str, output: Node, trial: Trial, found: Found) -> StateOperator:
    inputs = {each.node.id for each in found.inputs.values()}
    first = min(index.order[node.id] for node in trial.nodes)
    between = _made_from(index, {output.id}, first) - _made_from(index, inputs, first)
    return StateOperator(
        kind=kind,
        inputs={name: each.node.id for name, each in found.inputs.items()},
        sizes={name: _size(found.inputs[source].node, place) for name, (source, place) in _SIZES[kind].items()},
        options=found.options,
        weight=None,
        bias=None,
        output=output.id,
        nodes=index.exclusive([node for node in trial.nodes if node.id in between], output),
        frame=output.frame,
        where=output.where,
    )


def _made_from(index: Index, wanted: set[int], first: int) -> set[int]:
    """What some tensors are computed from, themselves included, but for what is before a place in the order.

    The whole of it is all layers before: as many times as there are layers, that takes long.
    """
    found: set[int] = set()
    pending = list(wanted)
    while pending:
        current = pending.pop()
        if current in index.nodes and current not in found and index.order[current] >= first:
            found.add(current)
            pending.extend(index.reads(index.nodes[current]))
    return found


def _is_unrolled(index: Index, nodes: list[Node]) -> bool:
    """Whether a loop over a sequence was read for its length at hand alone, which says nothing of longer ones."""
    lines: dict[str, list[int]] = {}
    for node in nodes:
        lines.setdefault(node.where.file, []).append(node.where.line)
    for note in index.graph.notes:
        found = re.match(r"(.*):(\d+): a loop over range\(.*\bsequence\b.*\) was unrolled", note)
        if found is not None and (near := lines.get(found[1])) and min(near) <= int(found[2]) <= max(near):
            return True
    return False


def _size(node: Node, place: int) -> Number:
    """A size of a tensor among those that are neither batch nor sequence."""
    shape = node.shape or ()
    found = axes(node)
    return shape[place] if found is None else shape[found[2][place]]


__all__ = ["find_states"]
