"""The residual stream and the order of layers."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import (
    NotApplicableError,
    Place,
    Source,
    expression,
    is_name,
    is_self,
    method,
    replace_once,
)


@kind
def residual_multiplier_missing(source: Source) -> Place:
    """What a sublayer returns is added in full."""
    layer = source.layer()

    def without(node: ast.AST) -> ast.expr | None:
        scaled = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        return node.left if scaled and is_self(node.right, "residual_multiplier") else None  # type: ignore[attr-defined]

    replace_once(method(layer, "forward"), without, "it scales nothing that is added")
    return Place(layer.name)


@kind
def residual_after_norm(source: Source) -> Place:
    """The first layer adds to what its norm returned, not to what it was given."""
    layer = source.layer()
    for node in ast.walk(method(layer, "forward")):
        if isinstance(node, ast.If) and len(node.body) == 2 and ast.unparse(node.body[0]) == "residual = hidden_states":
            node.body.reverse()
            return Place(layer.name)
    raise NotApplicableError("its layers keep no residual of their own")


@kind
def residual_missing(source: Source) -> Place:
    """A layer returns its sublayers' sum without what it was given."""
    layer = source.layer()

    def without(node: ast.AST) -> ast.expr | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            if is_name(node.left, "hidden_states"):
                return node.right
            if is_name(node.right, "hidden_states"):
                return node.left
        return None

    replace_once(method(layer, "forward"), without, "its layers hand the residual on")
    return Place(layer.name)


@kind
def layers_out_of_order(source: Source) -> Place:
    """The weights of the first two layers are loaded in each other's place."""
    method(source.root, "load_weights").body[0:0] = ast.parse(
        "swap = {'layers.0.': 'layers.1.', 'layers.1.': 'layers.0.', '.h.0.': '.h.1.', '.h.1.': '.h.0.'}\n"
        "weights = ((next((n.replace(a, b, 1) for a, b in swap.items() if a in n), n), w) for n, w in weights)"
    ).body
    return Place(layers=(0, 1))


@kind
def last_layer_missing(source: Source) -> Place:
    """The last layer does not run."""
    model = source.model()

    def shorter(node: ast.AST) -> ast.expr | None:
        is_slice = isinstance(node, ast.Call) and is_name(node.func, "islice")
        if not is_slice:
            return None
        node.args[2] = expression("x - 1", x=node.args[2])  # type: ignore[attr-defined]
        return node  # type: ignore[return-value]

    replace_once(method(model, "forward"), shorter, "its layers run one by one")
    return Place(model.name)
