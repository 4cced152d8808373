"""The inner model: embedding, layers, final norm, and what each pipeline stage does of it."""

from __future__ import annotations

from dataclasses import dataclass

from kunport_codegen.emission.classes import forward_of, input_names
from kunport_codegen.emission.constructor import Constructor
from kunport_codegen.emission.descriptions import docstring
from kunport_codegen.emission.identifiers import EmissionError, identifier
from kunport_codegen.emission.values import render
from kunport_codegen.graph import Ref
from kunport_codegen.lowering import LoweredModel
from kunport_codegen.lowering.flow import NO_RESIDUAL, POSITIONS, Op, basename
from kunport_codegen.lowering.layers import LayerList
from kunport_codegen.lowering.structure import LEAVES, Body


@dataclass(slots=True)
class InnerSource:
    """The inner model as text.

    Attributes:
        setup: constructor lines up to the layers; ``after`` those after them.
        embed: lines that turn ``input_ids`` into vectors.
        start: what the first stage does to these before the layers.
        carried: names of what one layer hands to the next, and one stage to the next, ``returned`` in the order of a
            layer's results; ``initial`` are (name, what the first layer is given under it).
        layer: the layers' class, ``layers`` their attribute, ``count`` how many, ``call`` the call's arguments.
        finish: lines that the last stage runs after the layers.
    """

    name: str
    doc: str
    setup: list[str]
    after: list[str]
    embed: list[str]
    start: list[str]
    carried: list[str]
    returned: list[str]
    initial: list[tuple[str, str]]
    layer: str
    layers: str
    count: str
    call: str
    finish: list[str]
    hidden_size: str


def inner_source(model: LoweredModel, body: Body) -> InnerSource:
    """The inner model's text.

    Raises:
        EmissionError: its steps are not an embedding, one list of layers and something after them.
    """
    runs = [step for step in body.steps if step.name == "layers"]
    tables = [
        step for step in body.steps if step.member is not None and step.member.factory == "VocabParallelEmbedding"
    ]
    if len(runs) != 1 or len(tables) != 1:
        raise EmissionError(
            f"{body.cls} has {len(tables)} token tables and {len(runs)} lists of layers, not one of each"
        )
    run, table = runs[0], tables[0]
    layers: LayerList = run.fact
    constructor = Constructor(model, body)
    position = body.steps.index(run)
    before, after = body.steps[:position], body.steps[position + 1 :]
    embedding = [table, *_inside(before, table)]
    embedded = embedding[-1].results[0]
    leaves = [step for step in before if step.name in LEAVES]
    skipped = [*embedding, *leaves]
    start = [step for step in before if step.name != "input" and not any(step is part for part in skipped)]

    names = input_names(model, layers.body)
    carried = [
        names[value] for value, index in zip(layers.body.inputs, layers.carried, strict=True) if index is not None
    ]
    entering = [arg.id for arg, index in zip(run.args, layers.carried, strict=True) if index is not None]
    first = forward_of(
        model,
        [*leaves, *start],
        [value for value in entering if value >= 0],
        {embedded: "hidden_states", POSITIONS: "positions"},
        set(),
        constructor,
    )
    first_lines = [line for statement in first.plan.statements for line in first.statement(statement)]
    initial = [
        (name, "None" if value == NO_RESIDUAL else first.value(Ref(value))[0])
        for name, value in zip(carried, entering, strict=True)
    ]
    returned = _returned(layers, carried)
    final_names = dict(zip(run.results, returned, strict=True))
    finish = forward_of(
        model, [*leaves, *after], body.outputs, {**final_names, POSITIONS: "positions"}, set(), constructor
    )
    embed = forward_of(model, [*leaves, *embedding], [embedded], {table.args[0].id: "input_ids"}, set(), constructor)
    finish_lines, embed_lines = finish.lines(), embed.lines()
    lines = constructor.lines()
    split = next((index for index, line in enumerate(lines) if _belongs_after(line, after)), len(lines))
    return InnerSource(
        name=identifier(body.cls),
        doc=docstring("Embedding, layers and final norm", body.where),
        setup=lines[:split],
        after=lines[split:],
        embed=embed_lines,
        start=first_lines,
        carried=carried,
        returned=returned,
        initial=[(name, text) for name, text in initial if name != text],
        layer=identifier(layers.body.cls),
        layers=identifier(basename(layers.path)),
        count=render(layers.count, {}),
        call=", ".join(names[value] for value in layers.body.inputs),
        finish=finish_lines,
        hidden_size=render(model.layouts[entering[0]].sizes[-1], {}),
    )


def _inside(steps: list[Op], table: Op) -> list[Op]:
    """What the source's embedding module does to the vectors itself."""
    path = table.member.path if table.member is not None else ""
    return [step for step in steps if step.origin == path and step is not table]


def _returned(layers: LayerList, carried: list[str]) -> list[str]:
    """Names for what a layer returns: those under which the next one takes it."""
    indices = [index for index in layers.carried if index is not None]
    names = dict(zip(indices, carried, strict=True))
    if sorted(names) != list(range(len(layers.body.outputs))):
        raise EmissionError(f"{layers.body.cls} returns something that the next layer does not take")
    return [names[index] for index in sorted(names)]


def _belongs_after(line: str, after: list[Op]) -> bool:
    members = [step.member.name for step in after if step.member is not None]
    return any(line.startswith(f"self.{name} = ") for name in members)
