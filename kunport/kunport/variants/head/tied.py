"""Whether the head's weight is the token embedding's own, and whether it adds a bias."""

from __future__ import annotations

from dataclasses import replace

from kunport_codegen.expression import Scalar

from kunport.variants.fact import Fact
from kunport.variants.logits import logits
from kunport.variants.model import Model
from kunport.variants.tokens import embedded
from kunport.variants.variant import Example, Found, Variant

_SWITCHES = r"(^|[._])(un)?tied?(_|$)|weight_tying|share_(emb|in|out|weight|head)"


def read(model: Model) -> Found:
    """Both; opaque where the logits come from no product with a parameter."""
    found = logits(model)
    if found.head is None:
        for key in ("head.tied", "head.bias"):
            yield key, Fact(None, found.where, reason=f"{found.where}: {found.lost}")
        return
    tokens = embedded(model).tokens
    weight = model.parameter(tokens.args[1]) if tokens is not None else None
    shared = dict(model.graph.tied).get(found.head.weight) is not None or found.head.weight == weight
    tied = model.fact(shared, model.graph.modules[""].where, _SWITCHES)  # whatever line multiplies by it
    if tokens is None and not shared:
        yield "head.tied", Fact(None, found.where, reason=f"{found.where}: what embeds the token ids was not found")
    else:
        yield "head.tied", replace(tied, where=found.where)
    module = model.graph.modules.get(found.head.owner)
    source = module.attributes.get("has_bias") if module is not None else None
    if source is False and not found.head.bias:  # none that another branch could add
        yield "head.bias", Fact(False, found.where)
    else:
        yield "head.bias", model.fact(found.head.bias, found.where, "", source if isinstance(source, Scalar) else None)


VARIANT = Variant(
    keys={"head.tied": "true or false", "head.bias": "true or false"},
    scope="model",
    read=read,
    examples=(
        Example("gemma2", True, "head.tied", fields=("tie_word_embeddings",)),
        Example("mistral", False, "head.tied"),
        Example("phi", True, "head.bias"),
        Example("llama", False, "head.bias"),
    ),
)
