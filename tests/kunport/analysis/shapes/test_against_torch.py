"""Every shape rule gives what torch gives, at the sizes that it saw and at others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.analysis.shapes import RULES, ShapeError, TensorType, infer
from kunport.validation.executor.arguments import Resolver
from kunport.validation.executor.operators import call
from kunport_codegen.expression import Scalar, symbols_of
from kunport_codegen.graph import Ref
from shape_calls import CALLS
from shape_drawing import CONFIG, SIZES, other_values

MODEL_DTYPES = (torch.bfloat16, torch.float32, torch.float16)
# What torch runs on data only: their results' sizes are not known before.
ON_DATA = {"nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "bincount", "getitem", "setitem"}
ON_DATA |= {"where", "repeat_interleave", "one_hot", "index_put", "isin"}


def test_every_rule_is_drawn() -> None:
    assert {name for names in CALLS for name in names.split()} == set(RULES)


@pytest.mark.parametrize("names", CALLS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rules_agree_with_torch(names: str) -> None:
    seen = set()

    @settings(max_examples=15, deadline=None, database=None, derandomize=True)
    @given(CALLS[names], st.sampled_from(MODEL_DTYPES), other_values)
    def check(drawn: Any, model: torch.dtype, others: dict[str, int]) -> None:
        args, kwargs = tuple(drawn[0]), dict(drawn[1])
        here = Resolver(CONFIG, SIZES, model)
        elsewhere = Resolver({key: others[key] for key in CONFIG}, {key: others[key] for key in SIZES}, model)
        for name in names.split():
            expected = run_torch(name, args, kwargs, here)
            if expected is None:
                continue  # torch refuses this dtype
            seen.add(name)
            inferred = infer(name, args, kwargs)
            results = inferred if isinstance(inferred, tuple) else (inferred,)
            compare(results, expected, here)
            expected = run_torch(name, args, kwargs, elsewhere)
            # Other sizes may not fit each other, or be cut into another number of pieces.
            if expected is not None and len(expected) == len(results):
                compare(results, expected, elsewhere)

    check()
    assert seen == set(names.split())


def run_torch(op: str, args: Any, kwargs: Any, resolver: Resolver) -> tuple[torch.Tensor, ...] | None:
    """What torch gives for tensors of these types, None if it refuses them."""
    device = torch.device("cpu" if op in ON_DATA else "meta")
    held: dict[int, torch.Tensor] = {}

    def place(value: Any) -> Any:
        if isinstance(value, TensorType):
            shape = resolver.argument(value.shape, {})
            held[len(held)] = torch.zeros(shape, dtype=resolver.dtype(value.dtype), device=device)
            return Ref(len(held) - 1)
        if isinstance(value, tuple | list):
            return type(value)(place(item) for item in value)
        return value

    placed = place(args), {key: place(value) for key, value in kwargs.items()}
    try:
        result = call(op, *resolver.argument(placed, held), device)
    except (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def compare(results: tuple[TensorType, ...], expected: tuple[torch.Tensor, ...], resolver: Resolver) -> None:
    assert len(results) == len(expected)
    for result, tensor in zip(results, expected, strict=True):
        assert resolver.dtype(result.dtype) == tensor.dtype
        assert len(result.shape) == tensor.dim()
        for size, actual in zip(result.shape, tensor.shape, strict=True):
            if not (isinstance(size, Scalar) and "data" in symbols_of(size.expr)):
                assert resolver.argument(size, {}) == actual, (size, tensor.shape)


def test_unknown_operator_is_refused_by_name() -> None:
    with pytest.raises(ShapeError, match="no shape rule for the operator frobnicate"):
        infer("frobnicate", (), {})
