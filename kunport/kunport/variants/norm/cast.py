"""Where a norm that computes in float32 returns to the model's type.

`before_weight`: `w * x.to(dtype)`, so that the weight multiplies in the model's type (Llama). `after_weight`: `(w *
x).to(dtype)` (Gemma, OLMo 2). `none`: the norm computes in the model's type throughout, or has no weight to multiply.
The three are equal in float32 and differ in the last bits of bfloat16.
"""

from __future__ import annotations

from kunport_codegen.facts import Norm

from kunport.variants.model import Model
from kunport.variants.variant import Example, Found, Variant


def read(model: Model, norm: Norm) -> Found:
    """The place of the cast."""
    yield "cast", model.fact(norm.cast, norm.where)


VARIANT = Variant(
    keys={"norm[NAME].cast": "before_weight, after_weight or none"},
    scope="norm",
    read=read,
    examples=(
        Example("llama", "before_weight", "norm[input_layernorm].cast"),
        Example("gemma2", "after_weight", "norm[input_layernorm].cast"),
        Example("olmo2", "after_weight", "norm[post_attention_layernorm].cast"),
    ),
)
