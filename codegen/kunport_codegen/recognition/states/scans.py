"""Scans of state-space models: which tensors of a source are the step, the input and what goes in and out of states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Number
from kunport_codegen.graph import Node
from kunport_codegen.recognition.index import argument, number
from kunport_codegen.recognition.rules import Array

from .formulas import mamba1_scan, mamba2_scan
from .trial import Candidate, Found, Trial


@dataclass(frozen=True, slots=True)
class _Step:
    """The step of a scan: what it is made of, and its numbers after softplus and limits."""

    raw: Candidate
    bias: Candidate | None
    options: dict[str, Number | str | bool]
    numbers: Array


def find_mamba1(trial: Trial) -> Found | None:
    """A decay for each channel and each of its states."""
    shape = trial.output.sizes
    if len(shape) != 1:
        return None
    some, few = (slice(1), slice(None), slice(2)), slice(2)
    for step, x, a in product(_steps(trial, shape), _of(trial, shape), _decays(trial, rank=2)):
        if a.sizes[0] != shape[0]:
            continue
        pairs = _of(trial, a.sizes[1:])
        for b, c in product(pairs, pairs):
            parts = x.numbers[some], step.numbers[some], a.numbers[few], b.numbers[:1], c.numbers[:1]
            scanned = mamba1_scan(*parts)
            for d in _direct(trial, shape, a):
                if not trial.equal(scanned + (0 if d is None else d.numbers[few] * parts[0]), some):
                    continue
                whole = mamba1_scan(x.numbers, step.numbers, a.numbers, b.numbers, c.numbers)
                if trial.equal(whole + (0 if d is None else d.numbers * x.numbers)):
                    return _found(x, step, a, b, c, d)
    return None


def find_mamba2(trial: Trial) -> Found | None:
    """One decay a head."""
    shape = trial.output.sizes
    if len(shape) != 2:
        return None
    heads = shape[0]
    first = (slice(1), slice(None), slice(1))
    some = (*first, slice(2))
    grouped = [each for each in trial.tokens if len(each.sizes) == 2 and heads % each.sizes[0] == 0]
    for step, a, x in product(_steps(trial, (heads,)), _decays(trial, rank=1), _of(trial, shape)):
        for b, c in product(grouped, grouped):
            if a.sizes != (heads,) or b.sizes != c.sizes or b is c:
                continue
            parts = x.numbers[some], step.numbers[first], a.numbers[:1], b.numbers[first], c.numbers[first]
            scanned = mamba2_scan(*parts)
            for d in _direct(trial, (heads,), a):
                if not trial.equal(scanned + (0 if d is None else d.numbers[0] * parts[0]), some):
                    continue
                whole = mamba2_scan(x.numbers, step.numbers, a.numbers, b.numbers, c.numbers)
                if trial.equal(whole + (0 if d is None else d.numbers[:, None] * x.numbers)):
                    return _found(x, step, a, b, c, d)
    return None


def _found(x: Candidate, step: _Step, a: Candidate, b: Candidate, c: Candidate, d: Candidate | None) -> Found:
    inputs = {"x": x, "dt": step.raw, "a": a, "b": b, "c": c}
    inputs |= {} if d is None else {"d": d}
    inputs |= {} if step.bias is None else {"dt_bias": step.bias}
    return Found(inputs, step.options)


def _of(trial: Trial, sizes: tuple[int, ...]) -> list[Candidate]:
    """The tensors with so many numbers for each token; what is projected comes before what is made of it."""
    return [each for each in trial.tokens if each.sizes == sizes]


def _decays(trial: Trial, rank: int) -> list[Candidate]:
    """``-exp`` of a parameter."""
    return [each for each in trial.constants if each.numbers.ndim == rank and bool((each.numbers < 0).all())]


def _direct(trial: Trial, sizes: tuple[int, ...], a: Candidate) -> Iterator[Candidate | None]:
    """What may go past the states: parameters of these sizes, then nothing."""
    for each in trial.constants:
        if each.numbers.shape == sizes and each is not a and each.node.op in ("parameter", "to"):
            yield each
    yield None


def _steps(trial: Trial, sizes: tuple[int, ...]) -> Iterator[_Step]:
    """``clamp(softplus(dt + bias))``, by its operators: limits that are never reached do not show in numbers."""
    for node in trial.nodes:
        if node.op != "softplus" or node.kwargs or len(node.args) != 1:
            continue
        after = trial.of(node)
        if after is None or after.sizes != sizes:
            continue
        raw, bias = _sum(trial, trial.index.producer(node.args[0]))
        if raw is None:
            continue
        limits, limited = _limits(trial, node)
        yield _Step(raw, bias, limits, limited.numbers)


def _sum(trial: Trial, node: Node | None) -> tuple[Candidate | None, Candidate | None]:
    """A tensor over tokens and the parameter that is added to it, if one is."""
    node = trial.index.strip(node, "to")
    if node is not None and node.op == "add":
        parts = [trial.index.producer(arg) for arg in node.args]
        for tokens, constant in (parts, parts[::-1]):
            raw = _token(trial, tokens)
            bias = _parameter(trial, constant)
            if raw is not None and bias is not None:
                return raw, bias
    return _token(trial, node), None


def _token(trial: Trial, node: Node | None) -> Candidate | None:
    found = trial.of(trial.index.strip(node, "to"))
    return found if found is not None and found.numbers.ndim == len(found.sizes) + 2 else None


def _parameter(trial: Trial, node: Node | None) -> Candidate | None:
    """The parameter behind an operand that only has axes of size one more."""
    found = trial.of(trial.index.strip(node, "to", "getitem", "unsqueeze", "reshape"))
    operand = trial.of(node)
    if found is None or operand is None or found.node.op != "parameter" or found.numbers.size != operand.numbers.size:
        return None
    return found


def _limits(trial: Trial, node: Node) -> tuple[dict[str, Any], Candidate]:
    """The limits on a step after its softplus, as a layer takes them, and the limited step."""
    options: dict[str, Any] = {}
    users = [trial.index.nodes[each] for each in trial.index.users.get(node.id, ()) if each in trial.index.nodes]
    clamps = [each for each in users if each.op == "clamp"]
    end = clamps[0] if len(clamps) == 1 and len(users) == 1 else node
    if end is not node:
        low, high = (end.kwargs.get(name, argument(end, place)) for name, place in (("min", 1), ("max", 2)))
        if number(low) is not None and unwrap(low) > 0:
            options["dt_min"] = low
        if number(high) is not None and np.isfinite(unwrap(high)):
            options["dt_max"] = high
    limited = trial.of(end)
    assert limited is not None, "it was evaluated with the step"
    return options, limited
