"""The token table, and tables of positions."""

from __future__ import annotations

from kunport_codegen.graph import Ref
from kunport_codegen.lowering.flow import Flow, Op, parent
from kunport_codegen.lowering.members import QUANT, Member, Prefix


def place_embeddings(flow: Flow) -> None:
    """Token ids look their vectors up in a table split over ranks; other ids in a whole one."""
    producers = flow.producers()
    tokens = {result for op in flow.ops if op.name == "input" for result in op.results}
    placed: list[Op] = []
    for op in flow.ops:
        weight = producers.get(op.args[1].id) if op.name == "embedding" and isinstance(op.args[1], Ref) else None
        if weight is None or weight.name != "parameter":
            placed.append(op)
            continue
        path = parent(weight.args[0])
        rows, width = flow.graph.parameters[weight.args[0]].shape
        if op.args[0].id in tokens:
            kwargs = {"quant_config": QUANT, "prefix": Prefix(path.rpartition(".")[2])}
            member = Member(path, "VocabParallelEmbedding", [rows, width], kwargs, op.where, sources=[path])
        else:
            member = Member(path, "nn.Embedding", [rows, width], {}, op.where, sources=[path])
        placed.append(flow.call(op, member, op.args[:1], op.results))
    flow.ops = placed
    flow.settle()
