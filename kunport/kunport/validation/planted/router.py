"""Routing and experts."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import (
    Built,
    NotApplicableError,
    Place,
    Source,
    calls,
    expression,
    is_self,
    method,
    replace_once,
)


@kind
def router_not_renormalized(source: Source) -> Place:
    """The chosen experts' weights do not add up to one, or do where they should not."""
    experts = _experts(source)
    keyword = experts.keyword("renormalize")
    if keyword is None or not isinstance(keyword.value, ast.Constant):
        raise NotApplicableError("it does not say whether weights are renormalized")
    keyword.value = ast.Constant(not keyword.value.value)
    return experts.place


@kind
def router_scoring(source: Source) -> Place:
    """Softmax where the scores are sigmoids."""
    experts = _experts(source)
    if experts.keyword("scoring_func") is None:
        raise NotApplicableError("its scores are a softmax")
    experts.drop("scoring_func")
    return experts.place


@kind
def router_one_expert_less(source: Source) -> Place:
    """One expert less is chosen for every token."""
    return _changed(source, "top_k", "x - 1")


@kind
def routed_scaling_missing(source: Source) -> Place:
    """The sum of the experts is not scaled."""
    if source.config.get("routed_scaling_factor") == 1.0:
        raise NotApplicableError("its factor is one")
    return _dropped(source, "routed_scaling_factor")


@kind
def correction_bias_missing(source: Source) -> Place:
    """Experts are chosen by their scores alone."""
    return _dropped(source, "e_score_correction_bias")


@kind
def correction_bias_in_weights(source: Source) -> Place:
    """The correction, meant for the choice of experts, gets into their weights."""
    experts = _experts(source)
    if experts.keyword("e_score_correction_bias") is None:
        raise NotApplicableError("it has no correction")
    for call in calls(method(experts.owner, "forward")):
        if is_self(call.func, experts.attribute):
            call.args[1] = expression("x + self.e_score_correction_bias", x=call.args[1])
            return Place(experts.owner.name)
    raise NotApplicableError("its experts are not called")


@kind
def group_limit_missing(source: Source) -> Place:
    """Experts of all groups may be chosen."""
    experts = _experts(source)
    groups = experts.keyword("num_expert_group")
    if groups is None or (source.config.get("n_group") or 1) == (source.config.get("topk_group") or 1):
        raise NotApplicableError("its choice is not limited to some groups")
    limit = experts.keyword("topk_group")
    assert limit is not None
    limit.value = groups.value
    return experts.place


def _added_in_kernel(node: ast.AST, shared: tuple[str, ...]) -> tuple[ast.expr, ast.expr] | None:
    """What the shared expert and the others give, where a generated kernel adds both."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and "_rows" in node.func.id):
        return None
    found = {
        name: argument
        for argument in node.args
        for call in calls(argument)
        for name in (*shared, "experts")
        if is_self(call.func, name)
    }
    beside = next((found[name] for name in shared if name in found), None)
    return None if beside is None or "experts" not in found else (beside, found["experts"])


@kind
def shared_expert_missing(source: Source) -> Place:
    """The expert that all tokens share is left out."""
    experts = _experts(source)
    shared = ("shared_expert", "shared_experts", "shared_mlp")

    def without(node: ast.AST) -> ast.expr | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            for side, other in ((node.left, node.right), (node.right, node.left)):
                if any(is_self(call.func, *shared) for call in calls(side)):
                    return other
        if (parts := _added_in_kernel(node, shared)) is not None:
            return parts[1]
        return None

    replace_once(method(experts.owner, "forward"), without, "it has no shared expert")
    return Place(experts.owner.name)


@kind
def shared_expert_gate_missing(source: Source) -> Place:
    """The shared expert counts in full."""
    experts = _experts(source)

    def without(node: ast.AST) -> ast.expr | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and "sigmoid" in ast.unparse(node):
            return node.right if "sigmoid" in ast.unparse(node.left) else node.left
        if (parts := _added_in_kernel(node, ("shared_expert",))) is not None:
            return ast.BinOp(parts[0], ast.Add(), parts[1])
        return None

    replace_once(method(experts.owner, "forward"), without, "its shared expert has no gate")
    return Place(experts.owner.name)


@kind
def experts_out_of_order(source: Source) -> Place:
    """The weights of two experts are loaded in each other's place."""
    experts = _experts(source)
    method(source.root, "load_weights").body[0:0] = ast.parse(
        "swap = {'.experts.0.': '.experts.1.', '.experts.1.': '.experts.0.'}\n"
        "weights = ((next((n.replace(a, b) for a, b in swap.items() if a in n), n), w) for n, w in weights)"
    ).body
    return experts.place


def _experts(source: Source) -> Built:
    return source.one("FusedMoEFactory")


def _changed(source: Source, name: str, formula: str) -> Place:
    return _experts_with(source, name).change(name, formula)


def _dropped(source: Source, name: str) -> Place:
    return _experts_with(source, name).drop(name)


def _experts_with(source: Source, name: str) -> Built:
    experts = _experts(source)
    if experts.keyword(name) is None:
        raise NotApplicableError(f"its experts take no {name}")
    return experts
