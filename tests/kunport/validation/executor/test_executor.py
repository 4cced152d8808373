"""The graph of every model of the first slice, run by the executor, gives the logits of Transformers in eager mode.

The analysis takes its sizes as it likes; these are two others. Every shape and dtype that the graph claims is checked
on the way against what torch made.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kunport.analysis import analyze
from kunport.tiny_models import build, find_case, randomize
from kunport.validation.executor import execute, steps
from kunport.validation.executor.arguments import Resolver
from kunport_codegen.expression import const
from kunport_codegen.graph import Graph, refs

SLICE = (
    *("llama", "qwen2", "qwen3", "mistral", "olmo2", "gemma2", "gemma3_text", "phi3", "gpt_neox", "starcoder2"),
    *("cohere", "glm4", "granite", "smollm3", "stablelm", "mixtral"),
)
BAR = 1e-6  # largest difference over largest logit, float32


@pytest.mark.parametrize("name", SLICE)
def test_graph_gives_the_logits_of_the_model(name: str, tmp_path: Path) -> None:
    config, model = build(find_case(name), engine=True)
    randomize(model)
    config.architectures = [type(model).__name__]
    config.save_pretrained(tmp_path)
    graph = analyze(tmp_path).graph
    tensors = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    for batch, length in ((1, 19), (3, 40)):
        tokens = torch.randint(config.vocab_size, (batch, length), generator=torch.Generator().manual_seed(length))
        with torch.no_grad():
            expected = model(tokens, use_cache=False).logits
        difference = (execute(graph, tensors, tokens) - expected).abs().max() / expected.abs().max()
        assert difference.item() <= BAR
        check_claims(graph, tensors, tokens)


def check_claims(graph: Graph, tensors: dict[str, torch.Tensor], tokens: torch.Tensor) -> None:
    resolver = Resolver(graph.config, {"batch": tokens.shape[0], "sequence": tokens.shape[1]}, torch.float32)
    for node, value in steps(graph, tensors, tokens, list(refs(graph.output))):
        if node.shape is not None and node.dtype is not None:
            resolver.bind(node.shape, value)
            claimed = (resolver.argument(node.shape, {}), resolver.dtype(node.dtype))
            assert claimed == (tuple(value.shape), value.dtype), node


def test_numbers_that_are_equal_keep_their_types() -> None:
    resolver = Resolver({}, {}, torch.float32)
    assert [type(resolver.scalar(const(value))) for value in (1, 1.0, True)] == [int, float, bool]
