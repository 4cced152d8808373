"""Whether the embedding is normalised before the first layer."""

from __future__ import annotations

from kunport.variants.model import Model
from kunport.variants.tokens import embedded, lost
from kunport.variants.variant import Example, Found, Variant

KEY = "embedding.norm"


def read(model: Model) -> Found:
    """True or false; opaque where something on the way to the first layer is not understood."""
    found = embedded(model)
    if found.unknown is not None:
        yield KEY, model.opaque(found.unknown)
    elif found.norms and _of_layers(model, found.norms[0].frame):
        node = model.index.nodes[found.norms[0].output]
        yield KEY, model.opaque(node, "the norm is one of a list, and may be that of the first layer")
    elif found.norms:
        yield KEY, model.fact(True, found.norms[0].where)
    elif found.tokens is None:
        yield KEY, lost(model.graph.modules[""].where)
    else:
        yield KEY, model.fact(False, found.tokens.where)


def _of_layers(model: Model, frame: int) -> bool:
    """Whether a norm's module stands in a list of its like, as where layers are spread over parallel lists."""
    modules, path = model.graph.modules, model.paths[frame]
    siblings = modules[path.rpartition(".")[0]].children if path.rpartition(".")[2].isdecimal() else []
    return len({modules[each].cls for each in siblings}) == 1 < len(siblings)


VARIANT = Variant(
    keys={KEY: "true or false"},
    scope="model",
    read=read,
    examples=(Example("bloom", True), Example("llama", False)),
)
