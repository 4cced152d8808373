"""Prints, as JSON, how states of long prompts differ from the contracts': operator, what its numbers are like, error.

Run with TRITON_INTERPRET=1. Prompts are several chunks long, one of them as long as whole chunks, and begin from a state or from none.
"""

import json
from collections.abc import Iterator
from typing import Any

import torch
from kunport_runtime.operators.check import copy_arguments, distance
from kunport_runtime.operators.draw import Draw
from kunport_runtime.operators.registry import registry
from kunport_runtime.operators.state.ragged import Ragged
from kunport_runtime.providers.triton import chunked_state

CHUNK = int(chunked_state.DEFAULTS["chunk"])
BATCH = Ragged("long", ((2 * CHUNK + 5, True), (1, True), (2 * CHUNK, False)))
HEADS, KEY, VALUE = 2, 16, 24


def inputs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Operator, what its numbers are like, and its arguments."""
    draw = Draw(torch.float32, "cpu", 0)
    tokens = BATCH.tokens
    memory = {
        "out": draw.poison(tokens, HEADS, VALUE),
        "query": draw.normal(tokens, HEADS, KEY),
        "key": draw.normal(tokens, HEADS, KEY),
        "value": draw.normal(tokens, HEADS, VALUE),
        "state": draw.normal(BATCH.slots, HEADS, KEY, VALUE),
        "scale": KEY**-0.5,
        **BATCH.arguments(draw),
    }
    yield "linear_attention", "slow and fast", memory | {"decay": torch.tensor([-0.01, -30.0])}
    decay = -draw.uniform(tokens, HEADS, 1, high=0.2, dtype=torch.float32)
    delta = memory | {"decay": decay, "beta": draw.uniform(tokens, HEADS), "normalize": True}
    yield "gated_delta_rule", "random", delta
    sudden = torch.where(torch.arange(tokens).view(-1, 1, 1) % 7 == 3, -80.0, decay)
    yield "gated_delta_rule", "that forgets all at some tokens", delta | {"decay": sudden}
    alike = {"key": torch.ones(tokens, HEADS, KEY), "beta": torch.ones(tokens, HEADS), "decay": 0 * decay}
    yield "gated_delta_rule", "of equal keys, each replacing the last", delta | alike
    scan = {
        "out": draw.poison(tokens, 4, VALUE),
        "x": draw.normal(tokens, 4, VALUE),
        "dt": draw.normal(tokens, 4),
        "a": torch.tensor([-0.05, -1.0, -20.0, -100.0]),
        "b": draw.normal(tokens, 2, KEY, scale=KEY**-0.5),
        "c": draw.normal(tokens, 2, KEY),
        "d": draw.normal(4),
        "dt_bias": draw.normal(4),
        "state": draw.normal(BATCH.slots, 4, VALUE, KEY),
        "dt_softplus": True,
        "dt_min": 0.0,
        "dt_max": 1.0,
        **BATCH.arguments(draw),
    }
    yield "mamba2_scan", "slow and fast", scan


for operator, label, arguments in inputs():
    contract = registry.contract(operator)
    expected = copy_arguments(contract, arguments)
    contract.reference(**expected)
    registry.implementations(operator)["triton"].load()(**arguments)
    errors = [distance(arguments[name], expected[name], contract.tolerance["float32"]) for name in ("out", "state")]
    print(json.dumps([operator, label, max(errors)]))
