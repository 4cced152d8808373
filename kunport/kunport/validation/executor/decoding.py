"""Runs a model step by step: all tokens at hand in one go, then one token after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from kunport_codegen.graph import Graph, refs

from .execution import steps


@dataclass(frozen=True, slots=True)
class Cache:
    """What ``past`` tokens left behind: tensors by their path in the source's cache (``layers[0].keys``)."""

    past: int = 0
    states: dict[str, torch.Tensor] = field(default_factory=dict)


def advance(
    graph: Graph, tensors: Mapping[str, torch.Tensor], input_ids: torch.Tensor, cache: Cache | None = None
) -> tuple[torch.Tensor, Cache]:
    """The logits ``[batch, new tokens, vocabulary]`` of new tokens, and the cache after them.

    Args:
        graph: the prefill of a `Decoding` where there is no cache yet, then its step.
        tensors: the state of the model by module path.
        input_ids: ``[batch, new tokens]``, int64; a step takes one.
        cache: what the tokens before left behind.

    Raises:
        KunportError: as `execute` does.
    """
    cache = cache or Cache()
    (output,) = refs(graph.output)
    wanted = {output, *refs(graph.states)}
    run = steps(graph, tensors, input_ids, wanted, states=cache.states, past=cache.past)
    found = {node.id: value for node, value in run if node.id in wanted}
    states = {path: found[next(refs(state))] for path, state in graph.states.items()}
    return found[output], Cache(cache.past + input_ids.shape[1], states)
