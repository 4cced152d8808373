"""Matrix memories: which tensors of a source are queries, keys and values, and what is forgotten and written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Number
from kunport_codegen.recognition.index import split_number
from kunport_codegen.recognition.rules import Array

from .formulas import gated_delta_rule, linear_attention
from .trial import Candidate, Found, Trial

_HEAD = (slice(1), slice(None), slice(1))
_STEP = 1e-6  # what the operator adds to a squared length before it divides by its root


def find_gated_delta(trial: Trial) -> Found | None:
    """What a key recalls is replaced by the value, in part."""
    for query, key, value, beta in _first_tokens(trial, gated=True):
        assert beta is not None, "each comes with a gate"
        for decay in _decays(trial, value.sizes[0], key.sizes[1]):
            parts = [each.numbers for each in (query, key, value, decay, beta)]
            some = [each[_HEAD] for each in parts]
            if trial.equal(gated_delta_rule(*some), _HEAD) and trial.equal(gated_delta_rule(*parts)):
                inputs = {"query": query, "key": key, "value": value, "decay": decay, "beta": beta}
                return _before_lengths(trial, inputs) or Found(inputs, {"scale": 1.0})
    return None


def find_linear_attention(trial: Trial) -> Found | None:
    """Each head forgets at a rate of its own, the same at every token."""
    for query, key, value, _ in _first_tokens(trial, gated=False):
        for rates in trial.constants:
            for decay in (rates.numbers.reshape(-1), -rates.numbers.reshape(-1)):
                if decay.shape != value.sizes[:1] or (decay > 0).any():
                    continue
                q, k, v = query.numbers, key.numbers, value.numbers
                if not trial.equal(linear_attention(q[_HEAD], k[_HEAD], v[_HEAD], decay[:1]), _HEAD):
                    continue
                if trial.equal(linear_attention(q, k, v, decay)) and (decay == rates.numbers.reshape(-1)).all():
                    return Found({"query": query, "key": key, "value": value, "decay": rates}, {})
    return None


def _first_tokens(trial: Trial, *, gated: bool) -> Iterator[tuple[Candidate, Candidate, Candidate, Candidate | None]]:
    """Queries, keys, values and gates that explain the first token, which finds nothing to recall or to forget."""
    shape = trial.output.sizes
    if len(shape) != 2:
        return
    wanted = trial.output.numbers[0, 0, 0]
    values = [each for each in trial.tokens if each.sizes == shape and each.node is not trial.output.node]
    keys = [each for each in trial.tokens if len(each.sizes) == 2 and shape[0] % each.sizes[0] == 0]
    gates = [each for each in trial.tokens if each.sizes == shape[:1]] if gated else [None]
    for value, (query, key) in product(values, product(keys, keys)):
        if query.sizes != key.sizes:
            continue
        recalled = (query.numbers[0, 0, 0] * key.numbers[0, 0, 0]).sum() * value.numbers[0, 0, 0]
        for gate in gates:
            result = recalled if gate is None else gate.numbers[0, 0, 0] * recalled
            if np.allclose(result, wanted, rtol=1e-6, atol=1e-9):
                yield query, key, value, gate


def _decays(trial: Trial, heads: int, key_dim: int) -> list[Candidate]:
    """One logarithm a head, or one for each row of its memory."""
    return [each for each in trial.tokens if each.sizes in ((heads,), (heads, key_dim))]


def _before_lengths(trial: Trial, inputs: dict[str, Candidate]) -> Found | None:
    """The same with queries and keys as they were before they were brought to length one, if they were."""
    small = trial.scaled(1e-3)
    if small is None:
        return None
    scaled = split_number(inputs["query"].node, trial.index.producer)
    scale: Number = 1.0
    if inputs["query"].node.op == "mul" and scaled is not None:
        scale = scaled[1]
    found: dict[str, Candidate] = {}
    for name, factor in (("query", scale), ("key", 1.0)):
        raw = _raw(trial, small, inputs[name], inputs["value"].sizes[0], float(unwrap(factor)))
        if raw is None:
            return None
        found[name] = raw
    if found["query"].sizes != found["key"].sizes:
        return None
    return Found({**inputs, **found}, {"scale": scale, "normalize": True})


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
