"""Recurrences of single channels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np

from .formulas import rg_lru, rwkv
from .trial import Candidate, Found, Trial

_SOME = (slice(1), slice(None), slice(2))


def find_rg_lru(trial: Trial) -> Found | None:
    """What enters and what stays are decided by two gates."""
    shape = trial.output.sizes
    gates = list(_before_sigmoid(trial, shape))
    inputs = [each for each in trial.tokens if each.sizes == shape]
    rates = [each for each in trial.constants if each.numbers.shape == shape]
    for (entering, keeping), x, rate in product(permutations(gates, 2), inputs, rates):
        tensors = {"x": x, "input_gate": entering, "recurrence_gate": keeping}
        few = {name: each.numbers[_SOME] for name, each in tensors.items()}
        if not trial.equal(rg_lru(**few, a_parameter=rate.numbers[:2]), _SOME):
            continue
        if trial.equal(rg_lru(**{name: each.numbers for name, each in tensors.items()}, a_parameter=rate.numbers)):
            return Found({**tensors, "a_parameter": rate}, {})
    return None


def find_rwkv(trial: Trial) -> Found | None:
    """A mean of all values so far, weighted by the exponentials of keys."""
    shape = trial.output.sizes
    tokens = [each for each in trial.tokens if each.sizes == shape]
    rates = [each for each in trial.constants if each.numbers.shape == shape and each.node.op == "parameter"]
    first = trial.output.numbers[0, 0]
    for receptance in _before_sigmoid(trial, shape):
        opened = 1 / (1 + np.exp(-receptance.numbers[0, 0]))
        values = [each for each in tokens if np.allclose(opened * each.numbers[0, 0], first, rtol=1e-6)]
        for value, key, (decay, own) in product(values, tokens, permutations(rates, 2)):
            tensors = {"receptance": receptance, "key": key, "value": value}
            few = {name: each.numbers[_SOME] for name, each in tensors.items()}
            if not trial.equal(rwkv(**few, time_decay=decay.numbers[:2], time_first=own.numbers[:2]), _SOME):
                continue
            whole = {name: each.numbers for name, each in tensors.items()}
            if trial.equal(rwkv(**whole, time_decay=decay.numbers, time_first=own.numbers)):
                return Found({**tensors, "time_decay": decay, "time_first": own}, {})
    return None


def _before_sigmoid(trial: Trial, sizes: tuple[int, ...]) -> Iterator[Candidate]:
    """The tensors over tokens that a sigmoid is taken of."""
    for node in trial.nodes:
        found = trial.of(trial.index.producer(node.args[0])) if node.op == "sigmoid" else None
        if found is not None and found.sizes == sizes:
            yield found
