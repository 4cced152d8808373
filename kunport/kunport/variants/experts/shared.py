"""The experts themselves: shared ones that every token uses, biases, and the activation.

`experts.shared` counts experts that run beside the chosen ones, 0 without any; where several are one wide MLP, it is
the number that the configuration gives. `experts.shared_gate` is the activation of a projection that their result is
multiplied by (Qwen MoE), null without.
"""

from __future__ import annotations

import re

from kunport_codegen.expression import Expr, Scalar
from kunport_codegen.facts import Experts

from kunport.variants.feedforward import MLP, mlps
from kunport.variants.gates import activation_of, gate_of_mlp
from kunport.variants.model import Layer
from kunport.variants.variant import Example, Found, Variant


def read(layer: Layer, fact: Experts) -> Found:
    """The experts' keys."""
    model = layer.model
    made = [each for each in (fact.weights, fact.choice) if each is not None]
    routing = {node.id for node in model.index.ancestors(*made)}
    beside = [
        each
        for each in mlps(layer)
        if layer.part(each.fact.frame) == layer.part(fact.frame)
        and routing.isdisjoint(projection.node.id for projection in each.projections)  # those are the router's own
    ]
    shared = _count(layer, beside[0]) if beside else 0
    where = beside[0].fact.where if beside else fact.where
    chosen = {_list_of(layer, path) for path in (fact.gate_up, fact.down)}
    if any(_list_of(layer, each.weight) in chosen for mlp in beside for each in mlp.projections):
        node = beside[0].projections[0].node
        yield "experts.shared", model.opaque(node, "an expert that tokens choose from runs for every token as well")
    else:
        yield "experts.shared", model.fact(shared, where, "shared_expert")
    gate = gate_of_mlp(layer, beside[0]) if beside else None
    if gate is None:
        yield "experts.shared_gate", model.fact(None, where)
    elif name := activation_of(model, gate):
        yield "experts.shared_gate", model.fact(name, gate.product.where)
    else:
        yield "experts.shared_gate", model.opaque(gate.product, "a gate without an activation")
    biased = fact.gate_up_bias is not None or fact.down_bias is not None
    yield "experts.bias", model.fact(biased, fact.where)
    yield "experts.activation", model.fact(fact.activation, fact.where, r"act(ivation)?(_fn|_func(tion)?)?$|hidden_act")


def _list_of(layer: Layer, path: str) -> str:
    """The list of experts that a weight belongs to; the weight itself of what stands in none."""
    return re.sub(r"\.\d+\..*", "", layer.inside(path))


def _count(layer: Layer, found: MLP) -> Scalar | int:
    """How many experts a shared MLP stands for: the factor of its width that is a number of shared experts."""
    size = found.size
    for factor in _factors(size.expr) if isinstance(size, Scalar) else ():
        if factor.op == "field" and "shared" in factor.args[0] and "size" not in factor.args[0]:
            value = layer.model.graph.config.get(factor.args[0])
            if type(value) is int:
                return Scalar(value, factor)
    return 1


def _factors(expr: Expr) -> list[Expr]:
    if expr.op != "mul":
        return [expr]
    return [each for operand in expr.args if isinstance(operand, Expr) for each in _factors(operand)]


VARIANT = Variant(
    keys={
        "experts.shared": "0, or the number of shared experts",
        "experts.shared_gate": "null, or the activation's name",
        "experts.bias": "true or false",
        "experts.activation": "the activation's name",
    },
    scope="experts",
    read=read,
    examples=(
        Example("mixtral", 0, "experts.shared"),
        Example("qwen2_moe", "sigmoid", "experts.shared_gate"),
        Example("deepseek_v3", None, "experts.shared_gate", layer=3),
        Example("mixtral", False, "experts.bias"),
        Example("mixtral", "silu", "experts.activation"),
    ),
)
