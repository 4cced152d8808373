"""How many layers the longest stack of the model has."""

from __future__ import annotations

from kunport_codegen.expression import fields_of

from kunport.variants.fact import Fact
from kunport.variants.model import Model
from kunport.variants.variant import Example, Found, Variant

KEY = "layers"


def read(model: Model) -> Found:
    """The number of layers; opaque where no numbered modules run one after another.

    The fields are those of the loop that made the layers. Where it counts by none, a field that counts layers is said
    to, or else a list with an entry for each that something was decided on.
    """
    if not model.layers:
        where = model.graph.modules[""].where
        yield KEY, Fact(None, where, reason=f"{where}: no list of layers was found")
        return
    first = model.layers[0]
    count = sum(layer.stack == first.stack for layer in model.layers)
    if counted := _counted(model, first.path):
        yield KEY, Fact(count, first.frame.where, tuple(sorted(counted)))
        return
    config = model.graph.config
    fields = [name for name in sorted(config) if model.counts_layers(name) and config[name] == count]
    indexed = sorted({field.partition("[")[0] for guard in model.graph.guards for field in fields_of(guard.expr)})
    fields += [name for name in indexed if isinstance(held := config.get(name), list) and len(held) == count]
    yield KEY, Fact(count, first.frame.where, tuple(fields[:1]))


def _counted(model: Model, layer: str) -> set[str]:
    """The fields of the innermost loop that made a layer; none where no field counts its turns."""
    module = model.graph.modules.get(layer)
    made = module.made if module is not None else None
    loops = [
        each
        for each in model.graph.counters
        if made is not None and each.file == made.file and each.first <= made.line <= each.last
    ]
    least = min((each.last - each.first for each in loops), default=0)
    return {field for each in loops if each.last - each.first == least for field in each.fields}


VARIANT = Variant(
    keys={KEY: "the number of layers"},
    scope="model",
    read=read,
    examples=(Example("llama", 3, config={"num_hidden_layers": 3}),),
)
