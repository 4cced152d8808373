"""Modeling code as people outside of Transformers write it: the graph that is read computes what the model computes."""

import pytest
import torch
from fixture_models import NAMES, Fixture, analyzed, logits, state
from kunport.validation.executor import execute

BAR = 1e-6  # largest difference over largest logit, float32


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_computes_what_the_model_computes(name: str) -> None:
    fixture = Fixture(name)
    analysis = analyzed(name)
    if "unknown" in fixture.expected:  # a limit that is stated
        assert analysis.unknowns[0].args[0] == fixture.expected["unknown"]  # others follow from the first
        return
    assert not analysis.unknowns, "\n".join(f"{node.where}: {node.args[0]}" for node in analysis.unknowns)
    model = fixture.build()
    tensors = state(model)
    for batch, length in ((1, 9), (2, 14)):
        tokens = torch.randint(60, (batch, length), generator=torch.Generator().manual_seed(length))
        expected = logits(model, tokens)
        difference = (execute(analysis.graph, tensors, tokens) - expected).abs().max() / expected.abs().max()
        assert difference.item() <= BAR
    assert {
        path: tuple(tensor.shape) for path, tensor in tensors.items() if path in analysis.graph.parameters
    }.keys() == (analysis.graph.parameters.keys())
