"""How many layers the longest stack of the model has."""

from __future__ import annotations

from kunport_codegen.expression import fields_of

from kunport.variants.fact import Fact
from kunport.variants.model import Model
from kunport.variants.variant import Example, Found, Variant

KEY = "layers"


def read(model: Model) -> Found:
    """The number of layers; opaque where no numbered modules run one after another.

    The graph does not keep what a list of layers was counted by: it is said to be a field that counts layers, or else a
    list with an entry for each that something was decided on.
    """
    if not model.layers:
        where = model.graph.modules[""].where
        yield KEY, Fact(None, where, reason=f"{where}: no list of layers was found")
        return
    first = model.layers[0]
    count = sum(layer.stack == first.stack for layer in model.layers)
    config = model.graph.config
    fields = [name for name in sorted(config) if model.counts_layers(name) and config[name] == count]
    indexed = sorted({field.partition("[")[0] for guard in model.graph.guards for field in fields_of(guard.expr)})
    fields += [name for name in indexed if isinstance(held := config.get(name), list) and len(held) == count]
    yield KEY, Fact(count, first.frame.where, tuple(fields[:1]))


VARIANT = Variant(
    keys={KEY: "the number of layers"},
    scope="model",
    read=read,
    examples=(Example("llama", 3, config={"num_hidden_layers": 3}),),
)
