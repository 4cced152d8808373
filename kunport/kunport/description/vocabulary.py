"""Token embeddings and the head that gives the logits."""

from __future__ import annotations

from collections.abc import Iterator

from kunport_codegen.graph import Node, refs

from kunport.description.attention import has_bias
from kunport.description.findings import Finding
from kunport.description.view import View, show, tensor_and_number


def describe(view: View) -> Iterator[Finding]:
    """The embedding and its scale, the head, and what happens to the logits."""
    yield from _embedding(view)
    yield from _head(view)


def _embedding(view: View) -> Iterator[Finding]:
    for node in view.index.in_order("embedding"):
        if not any(source.op == "input" for each in refs(node.args[0]) for source in view.back(each, lambda _: False)):
            continue
        weight = view.index.producer(node.args[1])
        size = [show(each) for each in weight.shape] if weight is not None and weight.shape else ["?", "?"]
        yield Finding(f"{size[0]} tokens of {size[1]} elements ({view.parameter(node.args[1])})", node.where)
        for user in view.index.users.get(node.id, ()):
            scaled = tensor_and_number(view, view.index.nodes[user]) if user in view.index.nodes else None
            if scaled is not None:
                text = f"embeddings multiplied by {show(scaled[1])}"
                yield Finding(text, view.index.nodes[user].where, usual=False)


def _head(view: View) -> Iterator[Finding]:
    chain = _logits(view)
    head = next((node for node in chain if node.op == "linear"), None)
    if head is None:
        return
    path = view.parameter(head.args[1])
    shared = dict(view.graph.tied).get(path or "")
    text = f"head ({path})" + (f", the same tensor as {shared}" if shared else ", a tensor of its own")
    yield Finding(text, head.where, usual=not shared)
    owner = view.graph.modules.get((path or "").rpartition(".")[0])
    if owner is not None and has_bias(owner):
        yield Finding("bias on the logits", head.where, usual=False)
    yield from _after(
        view, [node for node in reversed(chain[: chain.index(head)]) if node.op in ("mul", "div", "tanh")]
    )


def _after(view: View, nodes: list[Node]) -> Iterator[Finding]:
    """What the logits go through after the head: a cap by tanh, or factors."""
    if [node.op for node in nodes] == ["div", "tanh", "mul"] and (cap := tensor_and_number(view, nodes[2])) is not None:
        yield Finding(f"logits capped by tanh at {show(cap[1])}", nodes[1].where, usual=False)
        return
    for node in nodes:
        scaled = tensor_and_number(view, node)
        if scaled is not None:
            verb = "divided" if node.op == "div" else "multiplied"
            yield Finding(f"logits {verb} by {show(scaled[1])}", node.where, usual=False)
        elif node.op == "tanh":
            yield Finding("tanh of the logits", node.where, usual=False)


def _logits(view: View) -> list[Node]:
    """The nodes from the logits back to the head, along the first operand."""
    chain: list[Node] = []
    node = view.index.nodes.get(next(refs(view.graph.output), -1))
    while node is not None:
        chain.append(node)
        node = view.index.producer(node.args[0]) if node.op != "linear" and node.args else None
    return chain
