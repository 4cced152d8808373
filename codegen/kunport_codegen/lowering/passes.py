"""The passes, one after another."""

from __future__ import annotations

from collections.abc import Iterable

from kunport_codegen.expression import Expr
from kunport_codegen.facts import Facts
from kunport_codegen.graph import Graph
from kunport_codegen.lowering.attention import place_attentions
from kunport_codegen.lowering.constants import fold_constants
from kunport_codegen.lowering.embedding import place_embeddings
from kunport_codegen.lowering.errors import LoweringError, Refusal
from kunport_codegen.lowering.experts import place_experts
from kunport_codegen.lowering.flow import Flow, parent
from kunport_codegen.lowering.gated import pack_gates
from kunport_codegen.lowering.guards import needed_guards
from kunport_codegen.lowering.head import place_head
from kunport_codegen.lowering.ingest import ingest
from kunport_codegen.lowering.layers import fold_layers
from kunport_codegen.lowering.members import Member
from kunport_codegen.lowering.model import LoweredModel
from kunport_codegen.lowering.norms import place_norms
from kunport_codegen.lowering.parallel import place_linears
from kunport_codegen.lowering.projections import pack_projections
from kunport_codegen.lowering.repeated import share_repeated_heads
from kunport_codegen.lowering.report import describe, describe_kernels, opportunities
from kunport_codegen.lowering.residual import thread_residual
from kunport_codegen.lowering.rotary import place_ropes, widen_rotations
from kunport_codegen.lowering.rowwise import fuse_rows
from kunport_codegen.lowering.scaled_weights import unscale_weights
from kunport_codegen.lowering.sharing import share_classes
from kunport_codegen.lowering.spelled import spell_linears
from kunport_codegen.lowering.splits import splits
from kunport_codegen.lowering.states import fold_step_biases, place_states
from kunport_codegen.lowering.structure import Body, build, core, steps_of
from kunport_codegen.lowering.tokens import flatten_tokens
from kunport_codegen.lowering.views import cancel_views, flatten_heads
from kunport_codegen.lowering.weights import WeightMap, WeightMapError, weight_map
from kunport_codegen.lowering.widening import widen_stream
from kunport_codegen.lowering.written import join_written


def lower(graph: Graph, facts: Facts) -> LoweredModel:
    """The model as classes of the engine.

    Raises:
        LoweringError: something in the model has no place in the engine; every such operator is named.
    """
    flow = ingest(graph, facts)
    _settled(flow)
    join_written(flow)
    spell_linears(flow)
    flatten_tokens(flow)
    _settled(flow)
    widen_rotations(flow)
    share_repeated_heads(flow)
    flatten_heads(flow)
    fold_step_biases(flow)
    unscale_weights(flow)
    head = place_head(flow)
    place_embeddings(flow)
    pack_projections(flow)
    pack_gates(flow)
    cancel_views(flow)
    place_linears(flow)
    place_norms(flow)
    place_ropes(flow)
    place_attentions(flow)
    place_experts(flow)
    place_states(flow)
    cancel_views(flow)
    fold_constants(flow)
    _settled(flow)
    widen_stream(flow)
    thread_residual(flow)
    members = [op.member for op in flow.ops if op.name == "call" and op.member is not None]
    raw = [op.args[0] for op in flow.ops if op.name == "parameter"]
    shared = splits(graph, [*members, head.member] if head is not None else members, flow.transposed)
    root = build(flow)
    fold_layers(flow, root)
    share_classes(graph, root)
    fuse_rows(flow, root)
    _settled(flow)
    assert head is not None, "a missing head has been refused"
    return LoweredModel(
        graph=graph,
        root=root,
        head=head,
        layouts=flow.layouts,
        dtypes=flow.dtypes,
        names=flow.names,
        weights=_weights(graph, [*members, head.member], raw, flow, parent(core(root).path)),
        guards=needed_guards(graph, _members(root), _tests(root), flow.guards),
        splits=shared,
        whole=list(dict.fromkeys(flow.whole)),
        fused=[*describe(flow.ops, head), *describe_kernels(root)],
        opportunities=opportunities(root),
    )


def _settled(flow: Flow) -> None:
    if flow.refusals:
        raise LoweringError(flow.refusals)


def _weights(graph: Graph, members: list[Member], raw: Iterable[str], flow: Flow, wrapper: str) -> WeightMap:
    try:
        return weight_map(graph, members, raw, flow.regroups, flow.transposed, wrapper)
    except WeightMapError as error:
        raise LoweringError([Refusal(graph.modules[""].where, "weights", str(error))]) from None


def _members(body: Body) -> Iterable[Member]:
    """The members of a body and of those inside it, layers once."""
    return (step.member for step in steps_of(body) if step.name == "call" and step.member is not None)


def _tests(body: Body) -> Iterable[Expr]:
    """The conditions on which a layer, or a module in it, is one or another."""
    for step in steps_of(body):
        others = step.fact.others if step.name == "layers" else step.instead
        yield from (test for test, _ in others)
