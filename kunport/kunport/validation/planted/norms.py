"""Norms."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import (
    NotApplicableError,
    Place,
    Source,
    calls,
    expression,
    is_self,
    method,
    replace,
    replace_once,
)

NORMS = ("RMSNorm", "GemmaRMSNorm", "LayerNorm")


@kind
def epsilon(source: Source) -> Place:
    """A norm of the layers adds a hundred times the epsilon."""
    return source.one(*NORMS, having="eps").change("eps", "100 * x")


@kind
def final_norm_epsilon(source: Source) -> Place:
    """The last norm adds a hundred times the epsilon."""
    norm = source.one(*NORMS, having="eps", last=True)
    if norm.owner is not source.model():
        raise NotApplicableError("there is no norm after the layers")
    return norm.change("eps", "100 * x")


@kind
def one_plus_weight(source: Source) -> Place:
    """A norm multiplies by its weight where it should by one more, or the other way round."""
    norm = source.one("RMSNorm", "GemmaRMSNorm")
    if norm.keyword("has_weight") or norm.keyword("dtype"):
        raise NotApplicableError("its norms have no weight, or one of another type")
    other = "RMSNorm" if norm.call.func.id == "GemmaRMSNorm" else "GemmaRMSNorm"  # type: ignore[attr-defined]
    norm.call.func = ast.Name(other)
    source.tree.body[1:1] = ast.parse(f"from vllm.model_executor.layers.layernorm import {other}").body
    return norm.place


@kind
def layer_norm_without_mean(source: Source) -> Place:
    """A layer norm that does not subtract the mean."""
    norm = source.one("LayerNorm")
    norm.call.func = ast.Name("_WithoutMean")
    place = _first_class(source)
    source.tree.body[place:place] = ast.parse(
        "class _WithoutMean(LayerNorm):\n"
        "    def forward(self, x):\n"
        "        normed = x * torch.rsqrt(x.var(-1, keepdim=True, correction=0) + self.eps) * self.weight\n"
        "        return normed if self.bias is None else normed + self.bias\n"
    ).body
    return norm.place


@kind
def norms_exchanged(source: Source) -> Place:
    """The first two norms of a layer stand in each other's place."""
    layer = source.layer()
    names = [norm.attribute for norm in source.built(*NORMS) if norm.owner is layer][:2]
    if len(names) < 2:
        raise NotApplicableError("a layer has one norm")
    other = dict(zip(names, reversed(names), strict=True))
    for node in ast.walk(method(layer, "forward")):
        if is_self(node, *names):
            node.attr = other[node.attr]  # type: ignore[attr-defined]
    return Place(layer.name)


@kind
def query_norm_missing(source: Source) -> Place:
    """The query is not normed."""
    return _without_call(source, "q_norm")


@kind
def query_and_key_norm_exchanged(source: Source) -> Place:
    """The query is normed with the key's weights and the key with the query's."""
    norm = next((each for each in source.built(*NORMS, "HeadsRMSNorm") if each.attribute == "q_norm"), None)
    if norm is None:
        raise NotApplicableError("it norms no query")
    for node in ast.walk(method(norm.owner, "forward")):
        if is_self(node, "q_norm", "k_norm"):
            node.attr = "k_norm" if node.attr == "q_norm" else "q_norm"  # type: ignore[attr-defined]
    return Place(norm.owner.name)


@kind
def norm_after_sublayer_missing(source: Source) -> Place:
    """What attention returns is added to the residual without its norm."""
    layer = source.layer()
    attention = {"self_attn", "attention", "attn"}
    for call in calls(method(layer, "forward")):
        if is_self(call.func, *(norm.attribute for norm in source.built(*NORMS))) and len(call.args) == 1:
            inner = call.args[0]
            if isinstance(inner, ast.Call) and is_self(inner.func, *attention):
                _replace_call(layer, call, inner)
                return Place(layer.name)
    raise NotApplicableError("no norm follows attention directly")


@kind
def final_norm_missing(source: Source) -> Place:
    """The hidden states reach the head without the last norm."""
    model = source.model()
    norm = source.one(*NORMS, last=True)
    if norm.owner is not model:
        raise NotApplicableError("there is no norm after the layers")
    for call in calls(method(model, "forward")):
        if is_self(call.func, norm.attribute):
            added = expression("(a + b, None)", a=call.args[0], b=call.args[1]) if len(call.args) > 1 else call.args[0]
            _replace_call(model, call, added)
            return Place(model.name)
    raise NotApplicableError("the last norm is not called")


@kind
def norm_weight_not_loaded(source: Source) -> Place:
    """A norm's weight keeps the value that it was made with."""
    norm = next((each for each in source.built(*NORMS) if each.owner is source.layer()), None)
    if norm is None:
        raise NotApplicableError("its layers have no norm")
    load = method(source.root, "load_weights")
    load.body[0:0] = ast.parse(f"weights = ((n, w) for n, w in weights if '{norm.attribute}.weight' not in n)").body
    return norm.place


def _without_call(source: Source, attribute: str) -> Place:
    norm = next((each for each in source.built(*NORMS, "HeadsRMSNorm") if each.attribute == attribute), None)
    if norm is None:
        raise NotApplicableError(f"it has no {attribute}")
    change = lambda node: node.args[0] if isinstance(node, ast.Call) and is_self(node.func, attribute) else None  # noqa: E731
    replace_once(method(norm.owner, "forward"), change, f"{attribute} is not called")
    return Place(norm.owner.name)


def _replace_call(owner: ast.ClassDef, call: ast.Call, new: ast.expr) -> None:
    replace(owner, lambda node: new if node is call else None)


def _first_class(source: Source) -> int:
    return next(place for place, node in enumerate(source.tree.body) if isinstance(node, ast.ClassDef))
