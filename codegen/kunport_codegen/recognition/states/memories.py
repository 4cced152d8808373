"""Matrix memories: which tensors of a source are queries, keys and values, and what is forgotten and written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from kunport_codegen.facts import Number
from kunport_codegen.recognition.index import split_number
from kunport_codegen.recognition.rules import Array

from .formulas import gated_delta_rule, linear_attention
from .trial import Candidate, Found, Trial

HEAD = (slice(1), slice(None), slice(1))
_STEP = 1e-6  # what the operator adds to a squared length before it divides by its root


def find_gated_delta(trial: Trial) -> Found | None:
    """What a key recalls is replaced by the value, in part."""
    for parts in _first_tokens(trial, gated=True):
        assert parts.gate is not None, "each comes with a gate"
        tensors = {"query": parts.query, "key": parts.key, "value": parts.value, "beta": parts.gate}
        scale = trial.size(parts.scale)
        for decay in _decays(trial, parts.value.sizes[0], parts.key.sizes[1]):
            inputs = {**tensors, "decay": decay}
            few = {name: each.numbers[HEAD] for name, each in inputs.items()}
            whole = {name: each.numbers for name, each in inputs.items()}
            if trial.equal(scale * gated_delta_rule(**few), HEAD) and trial.equal(scale * gated_delta_rule(**whole)):
                return _before_lengths(trial, inputs, parts.scale) or Found(inputs, {"scale": parts.scale})
    return None


def find_linear_attention(trial: Trial) -> Found | None:
    """Each head forgets at a rate of its own, the same at every token."""
    for parts in _first_tokens(trial, gated=False):
        q, k, v = parts.query.numbers, parts.key.numbers, parts.value.numbers
        scale = trial.size(parts.scale)
        for rates in trial.constants:
            decay = rates.numbers.reshape(-1)
            if decay.shape != parts.value.sizes[:1] or parts.query.sizes[:1] != decay.shape:
                continue
            if not trial.equal(scale * linear_attention(q[HEAD], k[HEAD], v[HEAD], decay[:1]), HEAD):
                continue
            if trial.equal(scale * linear_attention(q, k, v, decay)):
                inputs = {"query": parts.query, "key": parts.key, "value": parts.value, "decay": rates}
                return Found(inputs, {"scale": parts.scale})
    return None


@dataclass(frozen=True, slots=True)
class _Parts:
    """What explains the first token, which finds nothing to recall or to forget."""

    query: Candidate
    key: Candidate
    value: Candidate
    gate: Candidate | None
    scale: Number


def _first_tokens(trial: Trial, *, gated: bool) -> Iterator[_Parts]:
    """Each way in which ``scale * gate * (query . key) * value`` is the first token of the output."""
    shape = trial.output.sizes
    if len(shape) != 2:
        return
    keys = [each for each in trial.tokens if len(each.sizes) == 2 and shape[0] % each.sizes[0] == 0]
    gates = [each for each in trial.tokens if each.sizes == shape[:1]] if gated else [None]
    factors_of_source = list(scales(trial))
    for value, factor in first_values(trial):
        for query, key, gate, scale in product(keys, keys, gates, factors_of_source):
            if query.sizes != key.sizes:
                continue
            found = float((query.numbers[0, 0, 0] * key.numbers[0, 0, 0]).sum()) * trial.size(scale)
            found *= 1.0 if gate is None else float(gate.numbers[0, 0, 0])
            if abs(found - factor) <= 1e-6 * abs(factor):
                yield _Parts(query, key, value, gate, scale)


def first_values(trial: Trial) -> Iterator[tuple[Candidate, float]]:
    """The tensors of which the output's first token is a multiple in its first head, and the factor."""
    for value in (each for each in trial.tokens if each.sizes == trial.output.sizes):
        factors = trial.output.numbers[0, 0, 0] / value.numbers[0, 0, 0]
        if np.ptp(factors) <= 1e-6 * abs(factors[0]):
            yield value, float(factors[0])


def scales(trial: Trial) -> Iterator[Number]:
    """One, and every number that the source multiplies a tensor by."""
    known = {1.0}
    yield 1.0
    for node in trial.nodes:
        factor = split_number(node, trial.index.producer) if node.op == "mul" else None
        if factor is not None and trial.size(factor[1]) not in known:
            known.add(trial.size(factor[1]))
            yield factor[1]


def _decays(trial: Trial, heads: int, key_dim: int) -> list[Candidate]:
    """One logarithm a head, or one for each row of its memory."""
    return [each for each in trial.tokens if each.sizes in ((heads,), (heads, key_dim))]


def _before_lengths(trial: Trial, inputs: dict[str, Candidate], scale: Number) -> Found | None:
    """The same with queries and keys as they were before they were brought to length one, if they were."""
    small = trial.scaled(1e-3)
    scaled = split_number(inputs["query"].node, trial.index.producer)
    if small is None:
        return None
    factor: Number = 1.0
    if scale == 1.0 and inputs["query"].node.op == "mul" and scaled is not None:
        factor = scaled[1]
    found: dict[str, Candidate] = {}
    for name, each in (("query", factor), ("key", 1.0)):
        raw = _raw(trial, small, inputs[name], inputs["value"].sizes[0], trial.size(each))
        if raw is None:
            return None
        found[name] = raw
    if found["query"].sizes != found["key"].sizes:
        return None
    return Found({**inputs, **found}, {"scale": factor if scale == 1.0 else scale, "normalize": True})


def _raw(trial: Trial, small: Trial, wanted: Candidate, heads: int, factor: float) -> Candidate | None:
    """What becomes ``wanted`` by its length and a factor, in numbers of size one and in small ones."""
    for each in sorted(trial.tokens, key=lambda each: each.sizes[0] if each.sizes else 0):
        if len(each.sizes) != 2 or each.sizes[1] != wanted.sizes[1] or heads % each.sizes[0]:
            continue
        pairs = [(each.numbers, wanted.numbers)]
        again, target = small.of(each.node), small.of(wanted.node)
        if again is not None and target is not None:
            pairs.append((again.numbers, target.numbers))
        if len(pairs) == 2 and all(_becomes(raw, result, factor) for raw, result in pairs):
            return each
    return None


def _becomes(raw: Array, wanted: Array, factor: float) -> bool:
    raw = np.repeat(raw, wanted.shape[2] // raw.shape[2], axis=2) if wanted.shape[2] % raw.shape[2] == 0 else raw
    if raw.shape != wanted.shape:
        return False
    result = factor * raw / np.sqrt((raw**2).sum(-1, keepdims=True) + _STEP)
    return bool(np.allclose(result, wanted, rtol=1e-7, atol=1e-12))
