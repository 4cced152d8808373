"""Key-value heads that a source repeats before it rotates them: the engine shares each among its query heads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Flow, Layout, Op, Size


@dataclass(frozen=True, slots=True)
class _Repeated:
    """An operand of attention made of ``source`` ``[tokens, heads, 1, size]``, each head ``times`` times.

    ``view`` lays the repeated heads side by side, ``after`` are what then works on each head by itself.
    """

    source: int
    view: Op
    after: list[Op]
    heads: Size
    times: int


def share_repeated_heads(flow: Flow) -> None:
    """Take the repetition away where both the key and the value of an attention have it."""
    producers, users = flow.producers(), flow.users()
    for op in list(flow.ops):
        if op.name != "Attention" or unwrap(op.fact.heads) != unwrap(op.fact.kv_heads):
            continue
        key, value = (_repeated(flow, producers, users, arg.id) for arg in op.args[1:])
        if key is None or value is None or unwrap(key.heads) != unwrap(value.heads) or key.times != value.times:
            continue
        for each in (key, value):
            _take_away(flow, each)
        op.fact = replace(op.fact, kv_heads=key.heads)
    flow.settle()


def _repeated(flow: Flow, producers: dict[int, Op], users: dict[int, list[Op]], operand: int) -> _Repeated | None:
    after: list[Op] = []
    current = operand
    while (op := producers.get(current)) is not None and len(users[current]) == 1:
        if op.name == "view":
            break
        if op.name != "Rope":
            return None
        after.append(op)
        current = op.args[0].id
    repeat = producers.get(op.args[0].id) if op is not None and op.name == "view" else None
    if op is None or repeat is None or repeat.name != "expand" or len(users[repeat.results[0]]) != 1:
        return None
    source = repeat.args[0].id
    before, between, sizes = (flow.layouts[each].sizes for each in (source, repeat.results[0], current))
    if len(before) != 3 or unwrap(before[1]) != 1 or len(between) != 3 or len(sizes) != 2:
        return None
    grouped = unwrap(between[0]) * unwrap(between[1]) == unwrap(sizes[0]) and unwrap(between[2]) == unwrap(sizes[1])
    alike = unwrap(before[0]) == unwrap(between[0]) and unwrap(before[2]) == unwrap(between[2])
    return _Repeated(source, op, after, before[0], unwrap(between[1])) if grouped and alike else None


def _take_away(flow: Flow, repeated: _Repeated) -> None:
    """Before the rotation, too: it turns each head by itself."""
    repeated.view.args = (Ref(repeated.source),)
    for op in (repeated.view, *repeated.after):
        layout = flow.layouts[op.results[0]]
        flow.layouts[op.results[0]] = Layout(layout.tokens, (repeated.heads, *layout.sizes[1:]))
