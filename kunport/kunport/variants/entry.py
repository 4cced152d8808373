"""Where the residual stream enters a layer."""

from __future__ import annotations

from kunport_codegen.graph import refs

from kunport.variants.model import Layer


def entry(layer: Layer) -> int | None:
    """The tensor that the stream enters as: the first input of the shape of the layer's output."""
    nodes = layer.model.index.nodes
    outputs = [nodes[each] for each in refs(layer.frame.output) if each in nodes]
    if not outputs or outputs[0].shape is None:
        return None
    inputs = [each for each in refs(list(layer.frame.inputs.values())) if each in nodes]
    return next((each for each in inputs if nodes[each].shape == outputs[0].shape), None)
