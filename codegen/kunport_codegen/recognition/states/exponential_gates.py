"""Matrix memories whose gates are exponentials, relative to the largest so far."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np

from kunport_codegen.facts import Number
from kunport_codegen.recognition.index import split_number

from .formulas import mlstm
from .memories import HEAD, first_values, scales
from .trial import Candidate, Found, Trial


def find_mlstm(trial: Trial) -> Found | None:
    """The matrix memory of xLSTM."""
    for tensors, scale, epsilon in _first_tokens(trial):
        numbers = {name: each.numbers for name, each in tensors.items()}
        few = {name: each[HEAD] for name, each in numbers.items()}
        options = (trial.size(scale), trial.size(epsilon))
        if not trial.equal(mlstm(**few, scale=options[0], epsilon=options[1]), HEAD):
            continue
        if trial.equal(mlstm(**numbers, scale=options[0], epsilon=options[1])):
            return Found(tensors, {"scale": scale, "epsilon": epsilon})
    return None


def _first_tokens(trial: Trial) -> Iterator[tuple[dict[str, Candidate], Number, Number]]:
    """What explains the first token: its value, times a number that its query, key and gates give."""
    shape = trial.output.sizes
    if len(shape) != 2:
        return
    keys = [each for each in trial.tokens if len(each.sizes) == 2 and each.sizes[0] == shape[0]]
    gates = [each for each in trial.tokens if each.sizes == shape[:1]]
    numbers = list(product(scales(trial), _epsilons(trial)))
    for value, factor in first_values(trial):
        for query, key, (entering, forgetting), (scale, epsilon) in product(
            keys, keys, permutations(gates, 2), numbers
        ):
            if query.sizes != key.sizes:
                continue
            tensors = {"query": query, "key": key, "value": value}
            tensors |= {"input_gate": entering, "forget_gate": forgetting}
            i, f = float(entering.numbers[0, 0, 0]), float(forgetting.numbers[0, 0, 0])
            top = max(-float(np.log1p(np.exp(-f))), i)
            read = trial.size(scale) * float((query.numbers[0, 0, 0] * key.numbers[0, 0, 0]).sum()) * np.exp(i - top)
            found = read / (max(abs(read), np.exp(-top)) + trial.size(epsilon))
            if abs(found - factor) <= 1e-7 * abs(factor):
                yield tensors, scale, epsilon


def _epsilons(trial: Trial) -> Iterator[Number]:
    """Every small number that the source adds."""
    known = set()
    for node in trial.nodes:
        added = split_number(node, trial.index.producer) if node.op == "add" else None
        if added is not None and 0 < trial.size(added[1]) < 0.01 and trial.size(added[1]) not in known:
            known.add(trial.size(added[1]))
            yield added[1]
