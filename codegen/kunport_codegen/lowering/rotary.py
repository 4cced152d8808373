"""Rotary embeddings: one `get_rope` for each attention and table, applied to query and key together."""

from __future__ import annotations

from kunport_codegen.expression import Expr, unwrap
from kunport_codegen.facts import Rope
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import POSITIONS, Flow, Op
from kunport_codegen.lowering.members import Member, Updated, Value
from kunport_codegen.lowering.selection import read


def has_embedding(fact: Rope) -> bool:
    """Whether the engine has a rotary embedding of this form, described by the configuration."""
    described = bool(fact.table.parameters) and fact.table.rope_type != "proportional"
    plain = fact.returns and not fact.regrouped and not fact.backwards
    return described and plain and unwrap(fact.table.rotary_dim) % 2 == 0


def place_ropes(flow: Flow) -> None:
    """Join the rotations of one module by one table into a call ``q, k = rotary_emb(positions, q, k)``."""
    attentions = {op.owner: op.fact for op in flow.ops if op.name == "Attention"}
    groups: dict[tuple[str, int], list[Op]] = {}
    for op in flow.ops:
        if op.name == "Rope":
            groups.setdefault((op.owner, op.fact.table.cos), []).append(op)
    joined: dict[int, Op] = {}
    names: dict[str, int] = {}
    for (owner, _), ops in groups.items():
        if len(ops) > 2 or len({op.fact.style for op in ops}) > 1 or owner not in attentions:
            flow.refuse(ops[-1], "it rotates something else than one query and one key of an attention")
            continue
        names[owner] = names.get(owner, 0) + 1
        name = "rotary_emb" if names[owner] == 1 else f"rotary_emb_{names[owner]}"
        member = _member(flow, ops[0], f"{owner}.{name}", attentions[owner].head_dim)
        args = (Ref(POSITIONS), *(op.args[0] for op in ops))
        call = flow.call(ops[0], member, args, [op.results[0] for op in ops])
        joined.update((id(op), call) for op in ops)
    flow.ops = list({id(op): op for op in (joined.get(id(op), op) for op in flow.ops)}.values())
    flow.settle()


def _follows(flow: Flow, fact: Rope, head_dim: Value) -> bool:
    """Whether the number of rotated elements is what the engine works out from the parameters."""
    try:
        described = read(flow.graph.config, fact.table.parameters)
        share = described.get("partial_rotary_factor", 1.0)
    except (LookupError, TypeError, AttributeError):
        return False
    return bool(unwrap(fact.table.rotary_dim) == int(unwrap(head_dim) * share))


def _member(flow: Flow, op: Op, path: str, head_dim: Value) -> Member:
    fact: Rope = op.fact
    parameters: Value = Expr("field", (fact.table.parameters,))
    if not _follows(flow, fact, head_dim):
        parameters = Updated(parameters, "rope_dim", fact.table.rotary_dim)
    kwargs: dict[str, Value] = {
        "max_position": Expr("field", ("max_position_embeddings",)),
        "rope_parameters": parameters,
    }
    if fact.style == "interleaved":
        kwargs["is_neox_style"] = False
    return Member(path, "get_rope", [head_dim], kwargs, op.where)
