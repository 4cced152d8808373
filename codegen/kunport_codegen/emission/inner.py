"""The inner model: embedding, layers, final norm, and what each pipeline stage does of it."""

from __future__ import annotations

from dataclasses import dataclass

from kunport_codegen.emission.classes import forward_of, input_names
from kunport_codegen.emission.constructor import Constructor
from kunport_codegen.emission.descriptions import docstring
from kunport_codegen.emission.identifiers import EmissionError, identifier
from kunport_codegen.emission.imports import class_name
from kunport_codegen.emission.values import render
from kunport_codegen.graph import Ref
from kunport_codegen.lowering import LoweredModel
from kunport_codegen.lowering.flow import NO_RESIDUAL, POSITIONS, Op, basename
from kunport_codegen.lowering.layers import LayerList
from kunport_codegen.lowering.selection import LAYER
from kunport_codegen.lowering.structure import LEAVES, Body

# What a layer is given that no step before the layers makes.
_GIVEN = (POSITIONS, NO_RESIDUAL)


@dataclass(slots=True)
class InnerSource:
    """The inner model as text.

    Attributes:
        setup: constructor lines up to the layers; ``after`` those after them.
        embed: lines that turn ``input_ids`` into vectors.
        start: what the first stage does to these before the layers.
        carried: names of what one layer hands to the next, and one stage to the next, ``returned`` in the order of a
            layer's results; ``initial`` are (name, what the first layer is given under it).
        shared: lines that each stage runs for what all layers read.
        layer: the layers' class, or how to choose it, ``layers`` their attribute, ``count`` how many, ``call`` the
            call's arguments.
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
    shared: list[str]
    layer: str
    layers: str
    count: str
    call: str
    finish: list[str]
    hidden_size: str


@dataclass(slots=True)
class _Parts:
    """An inner model's steps by where they stand: around the one list of layers.

    ``leaves`` are the operators without operands, of which every other part may have need.
    """

    run: Op
    embedding: list[Op]
    leaves: list[Op]
    start: list[Op]
    after: list[Op]

    @property
    def layers(self) -> LayerList:
        layers: LayerList = self.run.fact
        return layers

    def carried(self) -> list[tuple[int, int]]:
        """(the layers' input, what the first layer is given for it) of all that one layer hands to the next."""
        columns = zip(self.layers.body.inputs, self.run.args, self.layers.carried, strict=True)
        return [(value, arg.id) for value, arg, index in columns if index is not None]

    def shared(self) -> list[tuple[int, int]]:
        """(the layers' input, the value) of all that is made before the layers and the same for each of them."""
        columns = zip(self.layers.body.inputs, self.run.args, self.layers.carried, strict=True)
        return [(value, arg.id) for value, arg, index in columns if index is None and arg.id not in _GIVEN]


def inner_source(model: LoweredModel, body: Body) -> InnerSource:
    """The inner model's text.

    Raises:
        EmissionError: its steps are not an embedding, one list of layers and something after them.
    """
    parts = _parts(body)
    constructor = Constructor(model, body)
    layers, table = parts.layers, parts.embedding[0]
    names = input_names(model, layers.body)
    carried = [names[value] for value, _ in parts.carried()]
    shared = _shared(model, parts, names, constructor)
    start, initial = _start(model, parts, carried, constructor)
    returned = _returned(layers, carried)

    def forward(steps: list[Op], outputs: list[int], inputs: dict[int, str]) -> list[str]:
        return forward_of(model, [*parts.leaves, *steps], outputs, inputs, set(), constructor).lines()

    finish = forward(
        parts.after, body.outputs, {**dict(zip(parts.run.results, returned, strict=True)), POSITIONS: "positions"}
    )
    embed = forward(parts.embedding, parts.embedding[-1].results, {table.args[0].id: "input_ids"})
    lines = constructor.lines()
    split = next((index for index, line in enumerate(lines) if _belongs_after(line, parts.after)), len(lines))
    return InnerSource(
        name=class_name(body.cls),
        doc=docstring("Embedding, layers and final norm", body.where),
        setup=lines[:split],
        after=lines[split:],
        embed=embed,
        start=start,
        carried=carried,
        returned=returned,
        initial=initial,
        shared=shared,
        layer=_layer(layers),
        layers=identifier(basename(layers.path)),
        count=render(layers.count, {}),
        call=", ".join(names[value] for value in layers.body.inputs),
        finish=finish,
        hidden_size=render(model.layouts[parts.carried()[0][1]].sizes[-1], {}),
    )


def _layer(layers: LayerList) -> str:
    """The class of a layer, by the number in its ``prefix`` where there are several."""
    text = class_name(layers.body.cls)
    for test, body in layers.others:
        condition = render(test, {}).replace(LAYER, "extract_layer_index(prefix)")
        text = f"{class_name(body.cls)} if {condition} else {text}"
    return f"({text})" if layers.others else text


def _parts(body: Body) -> _Parts:
    runs = [step for step in body.steps if step.name == "layers"]
    tables = [
        step for step in body.steps if step.member is not None and step.member.factory == "VocabParallelEmbedding"
    ]
    if len(runs) != 1 or len(tables) != 1:
        raise EmissionError(
            f"{body.cls} has {len(tables)} token tables and {len(runs)} lists of layers, not one of each"
        )
    position = body.steps.index(runs[0])
    before, after = body.steps[:position], body.steps[position + 1 :]
    leaves = [step for step in before if step.name in LEAVES]
    embedding = [tables[0], *_inside(before, tables[0])]
    taken = {id(step) for step in [*leaves, *embedding]}
    start = [step for step in before if step.name != "input" and id(step) not in taken]
    return _Parts(runs[0], embedding, leaves, start, after)


def _start(
    model: LoweredModel, parts: _Parts, carried: list[str], constructor: Constructor
) -> tuple[list[str], list[tuple[str, str]]]:
    """What the first stage does before the layers, and what it then assigns for the first one."""
    entering = [value for _, value in parts.carried()]
    inputs = {parts.embedding[-1].results[0]: "hidden_states", POSITIONS: "positions"}
    outputs = [value for value in entering if value != NO_RESIDUAL]
    steps = _needed(parts.start, outputs)
    forward = forward_of(model, [*parts.leaves, *steps], outputs, inputs, set(), constructor)
    lines = [line for statement in forward.plan.statements for line in forward.statement(statement)]
    given = ["None" if value == NO_RESIDUAL else forward.value(Ref(value))[0] for value in entering]
    return lines, [(name, text) for name, text in zip(carried, given, strict=True) if name != text]


def _shared(model: LoweredModel, parts: _Parts, names: dict[int, str], constructor: Constructor) -> list[str]:
    """What each stage computes of the positions for all layers, under the names by which these take it."""
    wanted = [given for _, given in parts.shared()]
    steps = _needed(parts.start, wanted)
    made = {POSITIONS, *(result for step in [*parts.leaves, *steps] for result in step.results)}
    if any(value not in made for step in steps for value in step.inputs()) or not made.issuperset(wanted):
        raise EmissionError(
            f"all layers of {parts.layers.path} read what is made of the tokens, not of their positions"
        )
    kept = {value: names[value] for value, _ in parts.carried()}
    inputs = {POSITIONS: "positions", **kept}
    forward = forward_of(model, [*parts.leaves, *steps], [*wanted, *kept], inputs, set(), constructor)
    lines = [line for statement in forward.plan.statements for line in forward.statement(statement)]
    given = [(names[value], forward.value(Ref(made))[0]) for value, made in parts.shared()]
    renamed = [(name, text) for name, text in given if name != text]
    if renamed:
        lines.append(f"{', '.join(name for name, _ in renamed)} = {', '.join(text for _, text in renamed)}")
    return lines


def _needed(steps: list[Op], values: list[int]) -> list[Op]:
    """The steps that some values depend on."""
    wanted = set(values)
    for step in reversed(steps):
        if not wanted.isdisjoint(step.results):
            wanted.update(step.inputs())
    return [step for step in steps if not wanted.isdisjoint(step.results)]


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
