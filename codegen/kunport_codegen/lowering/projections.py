"""Query, key and value: whatever way the checkpoint packs them, one `QKVParallelLinear`."""

from __future__ import annotations

import re

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Attention
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Flow, Layout, Op, Size, parent
from kunport_codegen.lowering.linears import Linear, linear_of
from kunport_codegen.lowering.members import QUANT, Member, Prefix, Regroup, Value
from kunport_codegen.lowering.rows import Grouping, Part, grouping, trace


def pack_projections(flow: Flow) -> None:
    """Give each attention's operands one projection, where the dataflow shows that they are slices of one or three."""
    producers = flow.producers()
    packs: list[list[Op]] = []
    for op in flow.ops:
        if op.name != "Attention":
            continue
        parts = [trace(flow, producers, arg.id) for arg in op.args]
        if None in parts:
            continue
        packs.append(_pack(flow, producers, op, [part for part in parts if part is not None]))
    added = _packed_in_all_layers(flow, producers, packs)
    replaced = {result for op in added for result in op.results}
    flow.ops = [op for op in flow.ops if not replaced & set(op.results)] + added
    flow.settle()


def _packed_in_all_layers(flow: Flow, producers: dict[int, Op], packs: list[list[Op]]) -> list[Op]:
    """The operators of those packs whose layers are packed in every layer of a list: a checkpoint names all alike."""
    sources = {id(pack): pack[0].member.sources for pack in packs if pack and pack[0].member is not None}
    packed = {path for paths in sources.values() for path in paths}
    linears = [linear_of(flow, producers, op) for op in flow.ops if op.name == "linear"]
    apart = {_general(linear.path) for linear in linears if linear is not None and linear.path not in packed}
    return [op for pack in packs if apart.isdisjoint(map(_general, sources.get(id(pack), ()))) for op in pack]


def _general(path: str) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path)


def _pack(flow: Flow, producers: dict[int, Op], attention: Op, parts: list[Part]) -> list[Op]:
    linears = [linear_of(flow, producers, part.linear) for part in parts]
    if any(linear is None for linear in linears):
        return []
    found = [linear for linear in linears if linear is not None and not linear.held]
    if len(found) != len(linears):
        return []
    paths = list(dict.fromkeys(linear.path for linear in found))
    if len(paths) == 3 and len({linear.op.args[0].id for linear in found}) == 1:
        return _separate(flow, attention, found)
    if len(paths) == 1:
        return _fused(flow, attention, found[0], parts)
    return []


def _separate(flow: Flow, attention: Op, linears: list[Linear]) -> list[Op]:
    fact: Attention = attention.fact
    query, key, value = linears
    heads = [
        (query, fact.heads, fact.head_dim),
        (key, fact.kv_heads, fact.head_dim),
        (value, fact.kv_heads, fact.value_dim),
    ]
    if any(unwrap(linear.outputs) != unwrap(count) * unwrap(size) for linear, count, size in heads):
        return []
    if len({unwrap(linear.bias) for linear in linears}) > 1:
        return []
    path = f"{parent(query.path)}.qkv_proj"
    member = _member(fact, query, path, [linear.path for linear in linears])
    return _call(flow, member, query.op, [linear.op.results[0] for linear in linears], fact)


def _fused(flow: Flow, attention: Op, linear: Linear, parts: list[Part]) -> list[Op]:
    fact: Attention = attention.fact
    layout = grouping([part.rows for part in parts])
    sizes = [unwrap(fact.heads) * unwrap(fact.head_dim), unwrap(fact.kv_heads) * unwrap(fact.head_dim)]
    sizes.append(unwrap(fact.kv_heads) * unwrap(fact.value_dim))
    if layout is None or [part.rows.size for part in parts] != sizes:
        return []
    if not layout.in_order:
        regroup = _regroup(linear.path, fact, layout)
        flow.regroups.append(regroup)
        if regroup.heads is None:  # the number of groups is written down, and may follow from these
            flow.hold((fact.heads, fact.kv_heads, fact.head_dim), fact.where)
    member = _member(fact, linear, linear.path, [linear.path])
    flat = [
        flow.fresh(Layout(True, (size,)), flow.dtypes.get(part.value)) for size, part in zip(sizes, parts, strict=True)
    ]
    views = [
        Op("view", (Ref(value),), {}, [part.value], attention.owner, linear.op.where)
        for value, part in zip(flat, parts, strict=True)
    ]
    return [*_call(flow, member, linear.op, flat, fact), *views]


def _regroup(path: str, fact: Attention, layout: Grouping) -> Regroup:
    """In groups of the query heads that share a key-value head, that key and that value; or in some other way."""
    groups = unwrap(fact.kv_heads)
    each = (unwrap(fact.heads) // groups * unwrap(fact.head_dim), unwrap(fact.head_dim), unwrap(fact.head_dim))
    usual = layout == Grouping(groups, each, (0, 1, 2))
    return Regroup(path, layout.groups, layout.sizes, layout.order, (fact.heads, fact.kv_heads) if usual else None)


def _member(fact: Attention, linear: Linear, path: str, sources: list[str]) -> Member:
    args: list[Value] = [linear.inputs, fact.head_dim, fact.heads]
    if fact.kv_heads != fact.heads:
        args.append(fact.kv_heads)
    kwargs: dict[str, Value] = {"bias": linear.bias, "quant_config": QUANT, "prefix": Prefix(path.rpartition(".")[2])}
    if unwrap(fact.value_dim) != unwrap(fact.head_dim):
        kwargs["v_head_size"] = fact.value_dim
    return Member(path, "QKVParallelLinear", args, kwargs, linear.op.where, returns="pair", sources=sources)


def _call(flow: Flow, member: Member, op: Op, parts: list[int], fact: Attention) -> list[Op]:
    sizes: tuple[Size, ...] = tuple(flow.layouts[part].sizes[-1] for part in parts)
    total = sum(unwrap(size) for size in sizes)
    packed = flow.fresh(Layout(True, (total,)), flow.dtypes.get(parts[0]))
    flow.names.update({packed: "qkv", **dict(zip(parts, "qkv", strict=True))})
    flow.sharded.update((packed, *parts))
    flow.heads.update(zip(parts[:2], ((fact.heads, fact.head_dim), (fact.kv_heads, fact.head_dim)), strict=True))
    call = flow.call(op, member, (op.args[0],), [packed])
    return [call, Op("split_heads", (Ref(packed),), {}, parts, call.owner, op.where, member)]
