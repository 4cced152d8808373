"""Attention: one `Attention` layer for each, with what the source does to the scores."""

from __future__ import annotations

from kunport_codegen.expression import unwrap
from kunport_codegen.facts import Attention
from kunport_codegen.lowering.alibi import slopes_of
from kunport_codegen.lowering.errors import Refusal
from kunport_codegen.lowering.flow import Flow, Op, basename
from kunport_codegen.lowering.members import CACHE, QUANT, Call, Item, Member, Own, Prefix, Value


def place_attentions(flow: Flow) -> None:
    """Make each recognised attention a call of the engine's layer, which also keeps keys and values for later steps."""
    producers = flow.producers()
    placed: list[Op] = []
    called: dict[str, int] = {}
    for op in flow.ops:
        if op.name != "Attention":
            placed.append(op)
            continue
        fact: Attention = op.fact
        if fact.mask not in ("causal", "sliding"):
            flow.refuse(op, f"the engine's attention has no {fact.mask} mask")
        if fact.bias is not None and not fact.alibi:
            what = "a choice of keys" if fact.selection is not None else "data"
            flow.refuse(op, f"it adds a bias to the scores, made of {what}, which is not brought to the engine yet")
        if fact.window is None and _engine_adds_window(flow):
            flow.refuse(op, "it sees all keys, and the engine would give it the window of config.sliding_window")
        projection = _projection(producers, op)
        number = called[op.owner] = called.get(op.owner, 0) + 1
        member = _member(fact, op, projection, "attn" if number == 1 else f"attn_{number}")
        if projection is None:
            flow.whole.append(Refusal(op.where, op.name, "its heads are not those of one projection, and not split"))
        if fact.alibi:
            _slope(flow, op, member)
        if fact.sinks:
            _sink(flow, fact, member, split=projection is not None)
        for arg, name in zip(op.args, "qkv", strict=True):
            flow.names.setdefault(arg.id, name)
        placed.append(flow.call(op, member, op.args, op.results))
        flow.sharded.update(op.results)
    flow.ops = placed


def _slope(flow: Flow, op: Op, member: Member) -> None:
    """Give the layer the slopes of ALiBi; what else the source makes its bias of is taken as it is here."""
    fact: Attention = op.fact
    slopes = slopes_of(flow.graph, fact)
    if slopes is None:
        flow.refuse(op, "it adds a bias to the scores that grows with the key by no slopes that are known here")
        return
    args = (fact.heads,) if slopes.largest == 8.0 else (fact.heads, slopes.largest)
    member.kwargs = {"alibi_slopes": Call("alibi_slopes", args), **member.kwargs}
    flow.hold(slopes.others, fact.where)


def _sink(flow: Flow, fact: Attention, member: Member, *, split: bool) -> None:
    """Give the layer the learned sinks, a number for each head of this rank."""
    assert fact.sinks is not None
    parameter = flow.graph.parameters[fact.sinks]
    own = Own(basename(fact.sinks), (fact.heads,), parameter.dtype, flat=len(parameter.shape) > 1, split=split)
    member.kwargs = {"sinks": own, **member.kwargs}
    member.tensors = {"sinks": fact.sinks}


def _engine_adds_window(flow: Flow) -> bool:
    """Whether the engine takes ``sliding_window`` for every layer that names no window: it does without layer types."""
    config = flow.graph.config
    return bool(config.get("sliding_window")) and not config.get("layer_types")


def _projection(producers: dict[int, Op], op: Op) -> str | None:
    """Name of the packed projection that knows how many heads this rank has."""
    pending = [op.args[0].id]
    while pending:
        source = producers.get(pending.pop())
        if source is None:
            return None
        if source.name == "split_heads" and source.member is not None:
            return source.member.name
        pending = source.inputs()[-1:] if source.name == "call" else source.inputs()[:1]
    return None


def _member(fact: Attention, op: Op, projection: str | None, name: str) -> Member:
    heads, kv_heads = fact.heads, fact.kv_heads
    args: list[Value] = [Item(projection, "num_heads") if projection else heads, fact.head_dim]
    kwargs: dict[str, Value] = {"scale": fact.scale}
    if unwrap(kv_heads) != unwrap(heads) or kv_heads != heads:
        kwargs["num_kv_heads"] = Item(projection, "num_kv_heads") if projection else kv_heads
    kwargs |= {"cache_config": CACHE, "quant_config": QUANT}
    if fact.softcap is not None:
        kwargs["logits_soft_cap"] = fact.softcap
    if fact.window is not None:
        kwargs["per_layer_sliding_window"] = fact.window
    if unwrap(fact.value_dim) != unwrap(fact.head_dim):
        kwargs["head_size_v"] = fact.value_dim
    kwargs["prefix"] = Prefix(name)
    return Member(f"{op.owner}.{name}", "Attention", args, kwargs, op.where)
