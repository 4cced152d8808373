"""Where a norm that computes in float32 returns to the model's type.

`before_weight`: `w * x.to(dtype)`, so that the weight multiplies in the model's type (Llama). `after_weight`: `(w *
x).to(dtype)` (Gemma, OLMo 2). `root`: `x * rsqrt(...).to(dtype)`, so that all products are in the model's type. `none`:
the norm computes in the model's type throughout, or has no weight to multiply. All are equal in float32 and differ in
the last bits of bfloat16. Opaque where a norm that is spelled out reads a tensor of a fixed type and
returns that: no model's type is involved.
"""

from __future__ import annotations

from kunport_codegen.facts import Norm

from kunport.variants.fact import Fact
from kunport.variants.model import Model
from kunport.variants.variant import Example, Found, Variant

# What torch has a norm as: it computes in the type of what it reads, whatever that is.
_OPERATORS = frozenset(("layer_norm", "rms_norm"))


def read(model: Model, norm: Norm) -> Found:
    """The place of the cast."""
    source, made = model.index.nodes[norm.input], model.index.nodes[norm.output]
    kind = source.dtype.name if source.dtype is not None else "model"
    if norm.cast == "none" and norm.weight is not None and kind != "model" and made.op not in _OPERATORS:
        yield "cast", Fact(None, norm.where, reason=f"{norm.where}: what it reads is {kind}, and what it makes, too")
    else:
        yield "cast", model.fact(norm.cast, norm.where)


VARIANT = Variant(
    keys={"norm[NAME].cast": "before_weight, after_weight, root or none"},
    scope="norm",
    read=read,
    examples=(
        Example("llama", "before_weight", "norm[input_layernorm].cast"),
        Example("gemma2", "after_weight", "norm[input_layernorm].cast"),
        Example("olmo2", "after_weight", "norm[post_attention_layernorm].cast"),
    ),
)
