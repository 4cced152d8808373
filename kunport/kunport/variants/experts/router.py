"""How a router chooses experts for a token, and what it weighs them by.

`router.scoring` makes scores of the router's logits: `softmax`, `sigmoid` or another. `router.top_k` of
`router.experts` are chosen; where `router.correction_bias` is true, a bias takes part in the choice alone; where
`router.groups` is a number, only experts of the best groups may be chosen. The scores of the chosen are their
weights, divided by their sum if `router.renormalize`, and multiplied by `router.scale`.
"""

from __future__ import annotations

from kunport_codegen.expression import Scalar, unwrap
from kunport_codegen.facts import Experts

from kunport.variants.fact import Fact
from kunport.variants.model import Layer
from kunport.variants.variant import ABSENT, Example, Found, Variant

_OF_FORMULA = ("router.scoring", "router.renormalize", "router.groups", "router.correction_bias", "router.scale")


def read(layer: Layer, fact: Experts) -> Found:
    """The router's keys."""
    model, where = layer.model, fact.where
    if fact.absent:
        reason = f"{where}: beside {unwrap(fact.experts)} experts its router can choose none"
        yield "router.experts", Fact(None, where, reason=reason)
    else:
        yield "router.experts", model.fact(fact.experts, where)
    yield "router.top_k", model.fact(fact.top_k, where)
    if fact.scoring is None:
        reason = f"{where}: its router follows no formula that kunport knows"
        yield from ((key, Fact(None, where, reason=reason)) for key in _OF_FORMULA)
        return
    groups = fact.groups if fact.groups is not None and unwrap(fact.groups) != 1 else None
    scale = fact.scale
    yield (
        "router.scoring",
        model.fact(
            fact.scoring.replace("sqrt_softplus", "sqrtsoftplus"), where, r"scoring_func|score_func|router_activation"
        ),
    )
    yield "router.renormalize", model.fact(fact.renormalize, where, r"norm_topk|norm_top_k|renormalize|route_norm")
    yield "router.groups", model.fact(groups, where, "", fact.groups)
    yield "router.correction_bias", model.fact(fact.correction_bias is not None, where, "correction_bias")
    value = float(unwrap(scale))
    yield "router.scale", model.fact(Scalar(value, scale.expr) if isinstance(scale, Scalar) else value, where)


VARIANT = Variant(
    keys={
        "router.scoring": "softmax, sigmoid, ...",
        "router.experts": "experts to choose from",
        "router.top_k": "experts chosen",
        "router.renormalize": "true or false",
        "router.groups": "null, or the number of groups",
        "router.correction_bias": "true or false",
        "router.scale": "the factor on the weights",
    },
    scope="experts",
    read=read,
    examples=(
        Example("mixtral", "softmax", "router.scoring"),
        Example("mixtral", 8, "router.experts", fields=("num_local_experts",)),
        Example("mixtral", 2, "router.top_k", fields=("num_experts_per_tok",)),
        Example("mixtral", True, "router.renormalize"),
        Example("mixtral", None, "router.groups"),
        Example("llama", ABSENT, "router.experts"),
    ),
)
