"""What is kept from one token or request to the next."""

from __future__ import annotations

import ast

from kunport.validation.planted.kinds import kind
from kunport.validation.planted.source import NotApplicableError, Place, Source, calls, is_self, method


@kind
def cache_slot_off_by_one(source: Source) -> Place:
    """A key and value that is generated is written one slot too far."""
    attention = source.one("Attention")
    forward = method(attention.owner, "forward")
    if not any(is_self(call.func, attention.attribute) for call in calls(forward)):
        raise NotApplicableError("attention is not called")
    source.tree.body[1:1] = ast.parse("from vllm.forward_context import get_forward_context").body
    # One token of each request: a decode step. Layers of a group share one tensor, which is therefore not changed.
    forward.body[0:0] = ast.parse(
        "slots = get_forward_context().slot_mapping\n"
        f"name = self.{attention.attribute}.layer_name\n"
        "if len(slots[name]) <= 4:\n"
        "    slots[name] = slots[name] + 1\n"
    ).body
    return attention.place


@kind
def stale_output(source: Source) -> Place:
    """A network returns what it computed for the last batch of the same size."""
    network = next(
        (each for each in source.built("RowParallelLinear") if each.owner is not source.one("Attention").owner), None
    )
    if network is None:
        raise NotApplicableError("its networks are the engine's own experts")
    forward = method(network.owner, "forward")
    argument = forward.args.args[1].arg
    last = forward.body[-1]
    assert isinstance(last, ast.Return)
    assert last.value is not None
    forward.body[0:0] = ast.parse(
        f"if getattr(self, '_kept', None) is not None and len(self._kept) == len({argument}):\n    return self._kept\n"
    ).body
    forward.body[-1:] = ast.parse(f"self._kept = {ast.unparse(last.value)}\nreturn self._kept\n").body
    return Place(network.owner.name)


@kind
def prefix_reused(source: Source) -> Place:
    """A batch of the same size that begins with the same token gets what the last one did."""
    root = source.root
    forward = method(root, "forward")
    last = forward.body[-1]
    assert isinstance(last, ast.Return)
    assert last.value is not None
    forward.body[-1:] = ast.parse(
        "kept = self.__dict__.setdefault('_kept', {})\n"
        "begin = (len(input_ids), int(input_ids[0]))\n"
        "if begin not in kept:\n"
        f"    kept[begin] = {ast.unparse(last.value)}\n"
        "return kept[begin]\n"
    ).body
    return Place(root.name)
