"""Which of the configuration's decisions an adapter depends on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kunport_codegen.expression import Expr, Scalar, const, fields_of, symbols_of, walk
from kunport_codegen.graph import Graph, Guard
from kunport_codegen.lowering.members import Choice, Member, Repeat, Updated, Value
from kunport_codegen.lowering.selection import LAYER, indexed

# Fields that decide about training, caching or what is returned, never about the numbers of a forward pass, and the
# tied head, which the adapter reads from the configuration itself.
_WITHOUT_EFFECT = frozenset(
    (
        "use_cache",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
        "use_return_dict",
        "gradient_checkpointing",
        "_attn_implementation",
        "attention_dropout",
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "initializer_range",
        "torchscript",
        "pretraining_tp",
        "tie_word_embeddings",
        "router_aux_loss_coef",
        "is_decoder",
        "use_bidirectional_attention_during_training",
        "chunk_size_feed_forward",
        "problem_type",
        "dtype",
        "torch_dtype",
    )
)


# Settings of the engine's layers for which None means what it means in the source: no window, no cap.
_MAY_BE_NONE = frozenset(("per_layer_sliding_window", "logits_soft_cap", "soft_cap"))


@dataclass(frozen=True, slots=True)
class _Used:
    """What the adapter's constructors compute from the configuration, and so need not be guarded.

    ``exprs`` are whole expressions, ``paths`` rotary parameters, ``heads`` the fields that make up numbers of heads.
    """

    exprs: frozenset[Expr]
    paths: tuple[str, ...]
    heads: frozenset[str]


def needed_guards(
    graph: Graph, members: Iterable[Member], tests: Iterable[Expr] = (), assumed: Iterable[Guard] = ()
) -> list[Guard]:
    """The guards that the adapter needs, each once, one for all layers where that can be said.

    ``tests`` are conditions that its classes decide themselves, ``assumed`` guards that passes add to the source's.
    """
    used = _used(members, tests)
    kept = [*(guard for guard in graph.guards if not _is_free(guard, used)), *assumed]
    return _without_implied(_unique(_merge_layers(graph, _unique(kept))))


def _without_implied(guards: list[Guard]) -> list[Guard]:
    """A list of which all items are known to be one value needs no guard on what else is not in it."""
    known = {field for guard in guards for node in walk(guard.expr) if node.op == "least" for field in fields_of(node)}
    return [guard for guard in guards if guard.expr.op != "in" or not fields_of(guard.expr) <= known]


def _unique(guards: Iterable[Guard]) -> list[Guard]:
    """Each decision once: ``not x`` is one about x."""
    unique: dict[str, Guard] = {}
    for guard in guards:
        while guard.expr.op == "not" and isinstance(guard.expr.args[0], Expr):
            guard = Guard(guard.expr.args[0], not guard.outcome, guard.where)
        unique.setdefault(str(guard.expr), guard)
    return list(unique.values())


def _used(members: Iterable[Member], tests: Iterable[Expr]) -> _Used:
    exprs: set[Expr] = set(tests)
    paths: set[str] = set()
    heads: set[str] = set()
    for member in members:
        for name, value in member.kwargs.items():
            if name == "rope_parameters":
                paths.update(text.split("[")[0] for expr in _exprs(value) for text in fields_of(expr))
            if name == "bias":
                exprs.update(_exprs(value))
            if name in _MAY_BE_NONE:
                exprs.update(Expr(op, (expr, const(None))) for expr in _exprs(value) for op in ("is", "is_not"))
        if member.factory == "QKVParallelLinear" and len(member.args) == 4:
            heads.update(field for value in member.args[2:] for expr in _exprs(value) for field in fields_of(expr))
        for value in [*member.args, *member.kwargs.values()]:
            exprs.update(_tests(value))
        if member.when is not None:
            exprs.add(member.when)
    return _Used(frozenset(exprs), tuple(sorted(paths)), frozenset(heads))


def _exprs(value: Value) -> Iterable[Expr]:
    if isinstance(value, Scalar):
        yield value.expr
    elif isinstance(value, Expr):
        yield value
    elif isinstance(value, Repeat | Updated):
        yield from _exprs(value.value)
    elif isinstance(value, Choice):
        yield from _exprs(value.then)
        yield from _exprs(value.otherwise)


def _tests(value: Value) -> Iterable[Expr]:
    if isinstance(value, Choice):
        yield value.test
        yield from _tests(value.then)
        yield from _tests(value.otherwise)


def _is_free(guard: Guard, used: _Used) -> bool:
    fields = fields_of(guard.expr)
    heads = {field.split("[")[0].split(".")[0] for field in fields}
    if not fields or symbols_of(guard.expr) or heads <= _WITHOUT_EFFECT or _is_vacuous(guard.expr):
        return True
    if guard.expr in used.exprs or heads <= set(used.paths) or fields <= used.heads:
        return True
    layered = list(indexed(guard.expr))
    return any(_about(expr, test) for expr in layered for test in used.exprs)


def _is_vacuous(expr: Expr) -> bool:
    """Whether it asks if the result of arithmetic is None."""
    operand = expr.args[0] if expr.op in ("is", "is_not") and expr.args[1] == const(None) else None
    return isinstance(operand, Expr) and operand.op in ("add", "sub", "mul", "div", "floordiv", "pow", "neg")


def _about(expr: Expr, test: Expr) -> bool:
    """Whether a test on the layer's index decides this expression: it is the test, or the same field by layer."""
    return expr == test or (LAYER in str(expr) and fields_of(expr) == fields_of(test) != set())


def _merge_layers(graph: Graph, guards: list[Guard]) -> list[Guard]:
    """A comparison of every item of a list is one of the list: ``"x" in config.layer_types``, or all the same."""
    groups: dict[object, list[Guard]] = {}
    for guard in guards:
        general = next((expr for expr in indexed(guard.expr) if f"[{LAYER}]" in str(expr)), None)
        key: object = (general, guard.outcome) if general is not None else (guard.expr, None)
        groups.setdefault(key, []).append(guard)
    merged: list[Guard] = []
    for group, members in groups.items():
        general = group[0] if isinstance(group, tuple) else None
        single = _whole_list(graph, general, members) if len(members) > 1 and isinstance(general, Expr) else None
        merged += single or members
    return merged


def _whole_list(graph: Graph, general: Expr, guards: list[Guard]) -> list[Guard] | None:
    fields = fields_of(general)
    path = fields.pop() if len(fields) == 1 else ""
    name = path.removesuffix(f"[{LAYER}]")
    values = graph.config.get(name)
    if not isinstance(values, list | tuple) or len(values) != len(guards) or not values:
        return None
    whole, where = Expr("field", (name,)), guards[0].where
    if general.op == "eq" and guards[0].outcome is False and isinstance(general.args[1], Expr):
        return [Guard(Expr("in", (general.args[1], whole)), False, where)]
    if len(set(map(repr, values))) == 1 and isinstance(values[0], str | int):
        # Expressions have no loops: all items are equal where the least and the greatest are.
        return [
            Guard(Expr("eq", (Expr(end, (whole,)), const(values[0]))), True, where) for end in ("least", "greatest")
        ]
    return None
