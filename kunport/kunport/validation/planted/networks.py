"""Feed-forward networks."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import NotApplicableError, Place, Source, calls, is_self, method, replace_once


@kind
def activation(source: Source) -> Place:
    """GELU where SiLU should be, or the other way round."""
    network = source.one("SiluAndMul", "GeluAndMul")
    other = "GeluAndMul" if network.call.func.id == "SiluAndMul" else "SiluAndMul"  # type: ignore[attr-defined]
    network.call.func, network.call.keywords = ast.Name(other), []
    source.tree.body[1:1] = ast.parse(f"from vllm.model_executor.layers.activation import {other}").body
    return network.place


@kind
def activation_variant(source: Source) -> Place:
    """The tangent formula of GELU where the exact one should be, or the other way round."""
    for network in source.built("GeluAndMul"):
        exact = network.keyword("approximate") is None
        network.call.keywords = [ast.keyword("approximate", ast.Constant("tanh"))] if exact else []
        return network.place
    for owner in source.classes:
        for call in calls(owner):
            if ast.unparse(call.func) == "nn.functional.gelu":
                exact = not call.keywords
                call.keywords = [ast.keyword("approximate", ast.Constant("tanh"))] if exact else []
                return Place(owner.name)
    raise NotApplicableError("it has no GELU")


@kind
def gate_missing(source: Source) -> Place:
    """The product with the gate is left out: gate and up are added."""
    network = source.one("SiluAndMul", "GeluAndMul")

    def added(node: ast.AST) -> ast.expr | None:
        if isinstance(node, ast.Call) and is_self(node.func, network.attribute):
            text = ast.unparse(node.args[0])
            return ast.parse(f"({text}).unflatten(-1, (2, -1)).sum(-2)", mode="eval").body
        return None

    replace_once(method(network.owner, "forward"), added, "the activation is not called")
    return Place(network.owner.name)
