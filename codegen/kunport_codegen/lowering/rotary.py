"""Rotary embeddings: one `get_rope` for each attention and table, applied to query and key together."""

from __future__ import annotations

from collections.abc import Sequence

from kunport_codegen.expression import Expr, unwrap
from kunport_codegen.facts import Attention, Rope
from kunport_codegen.graph import Graph, Node, Ref, refs
from kunport_codegen.lowering.flow import POSITIONS, Flow, Op
from kunport_codegen.lowering.members import Member, Name, Updated, Value
from kunport_codegen.lowering.selection import read


def has_embedding(fact: Rope) -> bool:
    """Whether the engine has a rotary embedding of this form, described by the configuration."""
    described = bool(fact.table.parameters) and fact.table.rope_type != "proportional" and fact.returns
    plain = described or _is_plain(fact)
    return plain and not fact.backwards and unwrap(fact.table.rotary_dim) % 2 == 0


def _is_plain(fact: Rope) -> bool:
    """Whether the table is that of a base alone, of which the source says the number itself."""
    table = fact.table
    return not table.parameters and not table.own and table.rope_type == "default" and table.scaling == 1.0


def regrouped_alike(graph: Graph, ropes: Sequence[Rope], attentions: Sequence[Attention]) -> list[Rope]:
    """The rotations that the engine has, those that take pairs apart among them where the order cannot matter.

    The scores of an attention are the same for any order of the elements of a head that query and key share. So where
    both are rotated by one table and stand at one place of their heads, the engine may leave the pairs together.
    """
    readers: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(refs((node.args, node.kwargs))):
            readers.setdefault(value, []).append(node)
    widths = {node.id: unwrap(node.shape[-1]) for node in graph.nodes if node.shape}
    inside = {node for attention in attentions for node in attention.nodes}
    places: dict[tuple[int, int], list[tuple[int, str, Rope]]] = {}
    for rope in ropes:
        if rope.regrouped:
            for attention in attentions:
                for operand, name in ((attention.query, "q"), (attention.key, "k")):
                    place = _place(readers, widths, inside, rope.output, operand)
                    if place is not None:
                        places.setdefault((attention.output, rope.table.cos), []).append((place, name, rope))
    alike: set[int] = set()
    for found in places.values():
        same = len({(place, rope.style, rope.table.cos) for place, _, rope in found}) == 1
        if same and sorted(name for _, name, _ in found) == ["k", "q"]:
            alike.update(id(rope) for _, _, rope in found)
    return [rope for rope in ropes if not rope.regrouped or id(rope) in alike]


def _place(
    readers: dict[int, list[Node]], widths: dict[int, int], inside: set[int], value: int, operand: int
) -> int | None:
    """Where a value stands in the heads of an operand of attention, if it goes nowhere else; None otherwise."""
    place = 0
    while value != operand:
        users = [node for node in readers.get(value, ()) if node.op != "getitem" or readers.get(node.id)]
        if len(users) != 1 or users[0].id in inside:
            return None
        user = users[0]
        if user.op == "cat" and unwrap(user.kwargs.get("dim", user.args[-1])) == -1:
            parts = [part.id for part in user.args[0]]
            place += sum(widths[part] for part in parts[: parts.index(value)])
        elif user.op == "setitem" and isinstance(user.args[2], Ref) and user.args[2].id == value:
            start = user.args[1][1].start if isinstance(user.args[1], tuple) and len(user.args[1]) == 2 else None
            place += unwrap(start) or 0
        elif user.op not in ("setitem", "expand") and not (user.op == "transpose" and set(user.args[1:]) == {1, 2}):
            return None
        value = user.id
    return place


def widen_rotations(flow: Flow) -> None:
    """What turns the first elements of heads and puts the rest behind them again turns the heads: the engine's does."""
    producers, users = flow.producers(), flow.users()
    for op in flow.ops:
        if op.name != "Rope" or not _is_plain(op.fact):
            continue
        (reader, *others), first = users.get(op.results[0], []), producers.get(op.args[0].id)
        parts: Sequence[Ref] = reader.args[0] if reader.name == "cat" and unwrap(reader.kwargs["dim"]) == -1 else []
        rest = producers.get(parts[1].id) if len(parts) == 2 else None
        if others or first is None or rest is None or parts[0] != Ref(op.results[0]):
            continue
        cut, kept = _last_slice(first), _last_slice(rest)
        whole = first.args[0]
        if cut is None or kept is None or rest.args[0] != whole or unwrap(cut.start) or kept.stop is not None:
            continue
        if unwrap(cut.stop) == unwrap(kept.start) == unwrap(op.fact.table.rotary_dim):
            op.args, op.results = (whole,), reader.results
            flow.dtypes[op.results[0]] = flow.dtypes.get(whole.id)
            reader.results = [flow.fresh(flow.layouts[op.results[0]], None)]
    flow.settle()


def _last_slice(op: Op) -> slice | None:
    """The cut of the last axis, where an operator does nothing else."""
    index = op.args[1] if op.name == "getitem" else None
    if not isinstance(index, tuple) or any(item != slice(None, None, None) for item in index[:-1]):
        return None
    return index[-1] if isinstance(index[-1], slice) and index[-1].step is None else None


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
        head_size = ops[0].kwargs.get("head_size", attentions[owner].head_dim)
        if unwrap(head_size) == unwrap(attentions[owner].head_dim):
            head_size = attentions[owner].head_dim
        if any(unwrap(op.kwargs.get("head_size", head_size)) != unwrap(head_size) for op in ops):
            flow.refuse(ops[-1], "it rotates a query and a key of different sizes")
            continue
        member = _member(flow, ops[0], f"{owner}.{name}", head_size)
        args = (Ref(POSITIONS), *(op.args[0] for op in ops))
        call = flow.call(ops[0], member, args, [op.results[0] for op in ops])
        joined.update((id(op), call) for op in ops)
    flow.ops = list({id(op): op for op in (joined.get(id(op), op) for op in flow.ops)}.values())
    flow.settle()


# How many positions a table is for: what the model was made for, or what is served where it does not say.
_POSITIONS, _SERVED = Expr("field", ("max_position_embeddings",)), Name("vllm_config.model_config.max_model_len")


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
    if not fact.table.parameters:
        parameters = {"rope_type": "default", "rope_theta": fact.table.theta, "rope_dim": fact.table.rotary_dim}
    elif not _follows(flow, fact, head_dim):
        parameters = Updated(parameters, "rope_dim", fact.table.rotary_dim)
    kwargs: dict[str, Value] = {
        "max_position": _POSITIONS if "max_position_embeddings" in flow.graph.config else _SERVED,
        "rope_parameters": parameters,
    }
    if fact.style == "interleaved":
        kwargs["is_neox_style"] = False
    return Member(path, "get_rope", [head_dim], kwargs, op.where)
