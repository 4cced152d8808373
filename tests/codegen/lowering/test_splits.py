"""How tensor-parallel ranks share parameters."""

from __future__ import annotations

import pytest
from decoders import Decoder, build
from kunport_codegen.graph import Graph
from kunport_codegen.lowering import lower
from kunport_codegen.lowering.splits import WHOLE, Split
from kunport_codegen.recognition import recognize

LAYER = "model.layers.1"


def shared(graph: Graph) -> dict[str, Split]:
    return lower(graph, recognize(graph)).splits


def test_each_layer_of_the_engine_splits_as_it_does() -> None:
    splits = shared(build(Decoder(bias=True)))  # 4 heads, 2 key-value heads, 12 rows of gate and of up
    assert splits[f"{LAYER}.attention.q_proj.weight"] == Split(0, (4,))
    assert splits[f"{LAYER}.attention.k_proj.bias"] == Split(0, (), (2,))
    assert splits[f"{LAYER}.attention.o_proj.weight"] == Split(1, (16,))
    assert splits[f"{LAYER}.mlp.up_proj.weight"] == Split(0, (12,))
    assert splits[f"{LAYER}.mlp.down_proj.weight"] == Split(1, (12,))
    assert splits["model.embed_tokens.weight"] == splits["lm_head.weight"] == Split(0, padded=True)
    assert splits[f"{LAYER}.input_norm.weight"] == WHOLE


def test_fused_weights_split_by_each_of_their_parts() -> None:
    splits = shared(build(Decoder(projections="grouped", gate="fused", query_norm="full")))
    fused = [split for path, split in splits.items() if path.startswith(f"{LAYER}.attention") and split.dim == 0]
    assert Split(0, (4,), (2,)) in fused
    assert splits[f"{LAYER}.mlp.gate_up.weight"] == Split(0, (12,))


@pytest.mark.parametrize(
    ("split", "ranks"),
    [
        (Split(None), {1, 2, 3, 8}),
        (Split(0, padded=True), {1, 2, 3, 8}),
        (Split(1, (12,)), {1, 2, 3}),
        (Split(0, (4,), (2,)), {1, 2}),
        (Split(0, (), (2,)), {1, 2, 8}),  # each key-value head on four ranks
        (Split(0, (24,), (3,)), {1, 3}),
    ],
)
def test_what_ranks_divide(split: Split, ranks: set[int]) -> None:
    assert {number for number in (1, 2, 3, 8) if split.divides(number)} == ranks
