"""The outer model: the head, the weights, and what it promises the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kunport_codegen.emission.classes import forward_of
from kunport_codegen.emission.companions import keeps_latents
from kunport_codegen.emission.constructor import Constructor, construction
from kunport_codegen.emission.descriptions import docstring
from kunport_codegen.emission.identifiers import EmissionError, identifier, literal
from kunport_codegen.emission.imports import class_name
from kunport_codegen.emission.loading import dictionary, load_lines, mapper, reordered, sort_lines, turned
from kunport_codegen.emission.states import layer_states
from kunport_codegen.emission.tables import DEFAULT_DTYPE
from kunport_codegen.emission.values import render
from kunport_codegen.graph import Ref
from kunport_codegen.lowering import LoweredModel
from kunport_codegen.lowering.flow import Op, basename
from kunport_codegen.lowering.members import Member
from kunport_codegen.lowering.structure import Body, core, steps_of


@dataclass(slots=True)
class OuterSource:
    """The outer model as text for the template."""

    name: str
    doc: str
    bases: list[str]
    packed: str
    mapper: str
    embeddings: str
    states: str
    unquantised: str
    single_rank: str
    latent: str
    axes: bool
    inner: str
    setup: list[str]
    logits: list[str]
    load: list[str]
    sort: list[str]


def inner_of(model: LoweredModel) -> Body:
    """The module that runs the layers. Those around it only enter it.

    Raises:
        EmissionError: a module around it does more than that, or there is none.
    """
    body, name = core(model.root), model.graph.architecture
    entered = [step.fact for step in model.root.steps if step.name == "enter"]
    if not entered:
        raise EmissionError(
            f"{name} runs its embedding and layers itself, and an adapter needs them in one module beside the head: "
            f"give them a class of their own, with a forward from token ids to hidden states, and call that in {name}"
        )
    if body is model.root:
        raise EmissionError(f"{name} runs {len(entered)} modules besides its head, and an adapter has room for one")
    for outer in steps_of(model.root):
        if outer.name == "enter" and body.path.startswith(f"{outer.fact.path}.") and len(outer.fact.steps) != 1:
            raise EmissionError(f"{outer.fact.cls} does more than to run {body.cls}")
    return body


def outer_source(model: LoweredModel, body: Body) -> OuterSource:
    """The outer model's text."""
    table = next(step.member for step in body.steps if step.member is not None and "Embedding" in step.member.factory)
    inner = identifier(basename(body.path))
    states = layer_states(model)
    modules = any(step.name == "enter" for step in around(model, body)[1])
    lora = supports_lora(model) and not states and not modules
    kept, logits = _logits(model, body)
    return OuterSource(
        name=identifier(model.graph.architecture),
        doc=docstring("The model with its head", model.root.where),
        bases=[
            *(["StatefulModel"] if states else []),
            *(["TextPositions"] if _has_axes(model) else []),
            *(["SupportsLoRA"] if lora else []),
            "SupportsPP",
        ],
        packed=_packed(model, lora),
        mapper=mapper(model.weights),
        embeddings=_embeddings(table, model.head.member) if lora else "",
        states=states,
        unquantised=_unquantised(model),
        single_rank=_single_rank(model),
        latent=_latent(model),
        axes=_has_axes(model),
        inner=inner,
        setup=[*_setup(model, inner, table), *kept],
        logits=logits,
        load=load_lines(model.weights),
        sort=sort_lines(model.weights),
    )


def _has_axes(model: LoweredModel) -> bool:
    """Whether vLLM keeps several positions for each token, by what the configuration says of rotations."""
    rotations = model.graph.config.get("rope_parameters") or {}
    each = [rotations, *(item for item in rotations.values() if isinstance(item, dict))]
    return any("mrope_section" in rotation for rotation in each)


def supports_lora(model: LoweredModel) -> bool:
    """Whether every weight is in a layer that the engine can adapt: no experts, no matrices of the model's own.

    Nor are rows reordered: an adapter's matrices would be loaded in the checkpoint's order.
    """
    return not model.weights.regroups and all(
        step.name != "parameter" and (step.member is None or step.member.factory != "FusedMoEFactory")
        for step in steps_of(model.root)
    )


def _embeddings(table: Member, head: Member) -> str:
    return dictionary({identifier(table.name): "input_embeddings", identifier(head.name): "output_embeddings"})


def _packed(model: LoweredModel, lora: bool) -> str:
    """The packed layers. One that is packed in the checkpoint too is named for LoRA's sake only, which needs it."""
    packed = {name: parts for name, parts in model.weights.packed.items() if lora or parts != [name]}
    return dictionary(packed) if packed else ""


def _unquantised(model: LoweredModel) -> str:
    """The arguments of the error about quantised weights; "" where they are taken.

    Scales, zero points and packed rows do not lie as the rows do, so moving them likewise would give wrong weights.
    """
    work = [f"{verb} {' and '.join(names)}" for verb, names in _rearranged(model) if names]
    if not work:
        return ""
    problem = f"This adapter takes no quantised weights, because it {' and '.join(work)}."
    return f"{literal(problem)}, {literal('Serve the checkpoint as it was before, without quantization.')}"


def _rearranged(model: LoweredModel) -> list[tuple[str, list[str]]]:
    apart = [basename(apart.gate_up.rpartition(".")[0]) for apart in model.weights.apart]
    return [
        ("reorders the rows of", reordered(model.weights)),
        ("transposes", turned(model.weights)),
        ("takes apart", apart),
    ]


def _latent(model: LoweredModel) -> str:
    """What is wrong with an engine that would size its cache for latent attention, and the cure; "" if none does."""
    if not keeps_latents(model):
        return ""
    problem = "This adapter keeps whole keys and values, and vLLM is set for a cache of latents."
    return f"{literal(problem)}, {literal('Set VLLM_MLA_DISABLE=1.')}"


def _single_rank(model: LoweredModel) -> str:
    if not model.whole:
        return ""
    reasons = "; ".join(f"{refusal.op} at {refusal.where}: {refusal.reason}" for refusal in model.whole)
    return literal(f"This adapter runs on one tensor-parallel rank: {reasons}")


def _setup(model: LoweredModel, inner: str, table: Member) -> list[str]:
    head = model.head.member
    name = identifier(head.name)
    lines = [_built(head)]
    tie = f"self.{name} = self.{name}.tie_weights(self.{inner}.{identifier(table.name)})"
    if model.head.tied or model.graph.config.get("tie_word_embeddings") is False:
        lines += (
            ["if config.tie_word_embeddings:", f"    {tie}"] if "tie_word_embeddings" in model.graph.config else [tie]
        )
    return [*lines, f"self.logits_processor = {construction(model.head.processor, {})}"]


def _built(member: Member) -> str:
    """The construction of a layer that the outer model holds itself."""
    settings = {key: value for key, value in member.kwargs.items() if key != "prefix"}
    built = construction(replace(member, kwargs=settings), {})
    if "prefix" in member.kwargs:
        built = f'{built.removesuffix(")")}, prefix=maybe_prefix(prefix, "{identifier(member.name)}"))'
    return f"self.{identifier(member.name)} = {built}"


def _logits(model: LoweredModel, body: Body) -> tuple[list[str], list[str]]:
    """What the outer model does between the inner one and the head, then the head; before it what it keeps for that."""
    entered, rest = around(model, body)
    hidden = "hidden_states"
    kept: list[str] = []
    lines: list[str] = []
    if rest:
        constructor = Constructor(model, model.root)
        forward = forward_of(model, rest, model.root.outputs, {entered.results[0]: hidden}, set(), constructor)
        lines = [line for statement in forward.plan.statements for line in forward.statement(statement)]
        hidden = forward.value(Ref(model.root.outputs[0]))[0]
        kept = [f"{name} = {render(expr, {})}" for expr, name in constructor.attributes.items()]
        kept += [f"self.dtype = {DEFAULT_DTYPE}"] if constructor.keeps_dtype else []
        kept += [line for step in rest for line in _held(step)]
    head = identifier(model.head.member.name)
    bias = f", self.{head}.bias" if model.head.has_bias else ""
    return kept, [*lines, f"return self.logits_processor(self.{head}, {hidden}{bias})"]


def around(model: LoweredModel, body: Body) -> tuple[Op, list[Op]]:
    """The outermost module's step into the inner model, and its other steps, which come after it."""
    steps = [step for step in model.root.steps if step.name != "input"]
    entered = next(step for step in steps if step.name == "enter" and f"{body.path}.".startswith(f"{step.fact.path}."))
    return entered, [step for step in steps if step is not entered]


def _held(step: Op) -> list[str]:
    """What the outer model builds for one of its own steps."""
    if step.name == "enter":
        name = identifier(basename(step.fact.path))
        return [f'self.{name} = {class_name(step.fact.cls)}(vllm_config, prefix=maybe_prefix(prefix, "{name}"))']
    return [_built(step.member)] if step.name == "call" and step.member is not None else []
