"""ALiBi: the slopes of a source are those that the adapter computes, or it is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kunport_codegen.expression import Scalar, field
from kunport_codegen.graph import DType, Graph, Location, Node, Ref
from kunport_codegen.lowering.alibi import Slopes, slopes_of, usual_slopes

WHERE = Location("model.py", 7)


def found(slopes: list[float], scale: Scalar | float = 1.0) -> Slopes | None:
    """The slopes of ``slopes * scale * arange(5)``, one for each head."""
    heads = len(slopes)
    steps: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
        ("tensor", (slopes,), (heads,)),
        ("reshape", (Ref(0), (1, heads, 1, 1)), (1, heads, 1, 1)),
        ("arange", (5,), (5,)),
        ("mul", (Ref(1), Ref(2)), (1, heads, 1, 5)),
        ("mul", (Ref(3), scale), (1, heads, 1, 5)),
    ]
    graph = Graph("TinyForCausalLM", "tiny", {})
    graph.nodes = [
        Node(at, op, args, {}, shape, DType("float32"), 0, WHERE) for at, (op, args, shape) in enumerate(steps)
    ]
    fact: Any = SimpleNamespace(heads=field("n_head", heads), bias=4)
    return slopes_of(graph, fact)


@pytest.mark.parametrize("heads", [2, 4, 6, 8, 12])
@pytest.mark.parametrize("largest", [8.0, 4.0])
def test_slopes_are_told_by_their_exponent(heads: int, largest: float) -> None:
    assert found(usual_slopes(heads, largest)) == Slopes(largest, ())


def test_other_slopes_are_not_taken_for_these() -> None:
    assert found([0.5, 0.4, 0.3, 0.2]) is None
    assert found([0.5, -0.25, 0.125, 0.0625]) is None


def test_numbers_of_the_configuration_behind_a_bias_are_named() -> None:
    result = found(usual_slopes(4, 8.0), field("factor", 1.0))
    assert result is not None
    assert result.others == (field("factor", 1.0),)
