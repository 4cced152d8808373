"""Output gates of attention: where they multiply, and what makes them."""

from __future__ import annotations

from dataclasses import dataclass

from kunport_codegen.graph import Node

from kunport.variants.paths import Site, projections_of

_MOVES = ("to", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "getitem", "expand", "flatten", "item")


@dataclass(frozen=True, slots=True)
class Gate:
    """``product`` multiplies the attention's result by what ``source`` makes of a projection."""

    product: Node
    source: Node


def gate_of(site: Site) -> Gate | None:
    """The first gate after an attention."""
    index = site.layer.model.index
    for product, other in site.onward.gates:
        source = index.strip(index.nodes.get(other), *_MOVES)
        if source is not None and projections_of(site.layer, other):
            return Gate(product, source)
    return None
