"""Fixtures under another configuration than their own: what is said of them changes with what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from fixture_models import Fixture
from kunport.analysis import analyze
from kunport.variants import Fact, read_facts


def _facts(name: str, **config: Any) -> Mapping[str, Fact]:
    return read_facts(analyze(Fixture(name).folder, config=config).graph).kinds[0].facts


def test_a_bias_that_is_added_to_the_stream_belongs_to_the_branch_whose_layer_handed_it_on() -> None:
    facts = _facts("column_row", add_bias_linear=True)
    assert facts["residual.order"].value == "r N A M + +"
    assert facts["attention.bias"].value == ["k", "o", "q", "v"]
    assert facts["unexplained"].value == []


def test_the_pairing_of_two_elements_is_not_told() -> None:
    """Half and interleaved turn the only pair alike."""
    pair, turn = torch.randn(5, 2), torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    half = torch.cat((-pair[:, 1:], pair[:, :1]), -1)
    interleaved = torch.stack((-pair[:, 1::2], pair[:, ::2]), -1).flatten(-2)
    assert torch.equal(half, interleaved)
    assert torch.equal(half, pair @ turn.T)
    assert _facts("argparse_tasks", rope_frac=0.25)["position.pairing"].status == "opaque"
    assert _facts("argparse_tasks", rope_frac=0.5)["position.pairing"].value == "interleaved"
