"""The classes below the model, one for each body, innermost first."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from dataclasses import dataclass

from kunport_codegen.emission.constructor import Constructor
from kunport_codegen.emission.descriptions import describe
from kunport_codegen.emission.forward import Forward
from kunport_codegen.emission.identifiers import EmissionError, identifier
from kunport_codegen.emission.imports import class_name
from kunport_codegen.expression import unwrap
from kunport_codegen.lowering import LoweredModel
from kunport_codegen.lowering.flow import NO_RESIDUAL, POSITIONS, Op
from kunport_codegen.lowering.structure import Body, bodies


@dataclass(slots=True)
class ClassSource:
    """A class as text: what it is constructed with, constructor lines, forward parameters, lines and type."""

    name: str
    doc: str
    arguments: list[str]
    setup: list[str]
    parameters: list[str]
    lines: list[str]
    returns: str


def class_sources(model: LoweredModel, steps: Iterable[Op]) -> list[ClassSource]:
    """The classes that the steps enter, and those inside them, each once and after those it uses.

    Raises:
        EmissionError: two different modules of the source have one class name.
    """
    found: dict[str, ClassSource] = {}
    for step in steps:
        if step.name == "layers":
            for body in bodies(step):
                first = zip(body.inputs, step.args, strict=True)
                _collect(model, body, {value for value, arg in first if arg.id == NO_RESIDUAL}, found)
        elif step.name == "enter":
            _collect(model, step.fact, set(), found)
    return list(found.values())


def _collect(model: LoweredModel, body: Body, optional: set[int], found: dict[str, ClassSource]) -> None:
    for child in (inner for step in body.steps for inner in bodies(step)):
        _collect(model, child, set(), found)
    source = _class_source(model, body, optional)
    if found.setdefault(source.name, source) != source:
        raise EmissionError(f"two modules that compute differently are both called {source.name}")


def _class_source(model: LoweredModel, body: Body, optional: set[int]) -> ClassSource:
    constructor = Constructor(model, body)
    inputs = input_names(model, body)
    lines = forward_of(model, body.steps, body.outputs, inputs, optional, constructor).lines()
    parameters = [f"{name}: torch.Tensor" + (" | None" if value in optional else "") for value, name in inputs.items()]
    returns = ", ".join(["torch.Tensor"] * len(body.outputs))
    return ClassSource(
        name=class_name(body.cls),
        doc=describe(body),
        arguments=[f"{identifier(key)}: {type(unwrap(value)).__name__}" for key, value in body.arguments.items()],
        setup=constructor.lines(),
        parameters=parameters,
        lines=lines,
        returns=returns if len(body.outputs) == 1 else f"tuple[{returns}]",
    )


def forward_of(
    model: LoweredModel,
    steps: list[Op],
    outputs: list[int],
    inputs: dict[int, str],
    optional: set[int],
    constructor: Constructor,
) -> Forward:
    """A writer of statements for these steps."""
    return Forward(
        steps,
        outputs,
        inputs,
        layouts=model.layouts,
        dtypes=model.dtypes,
        hints=model.names,
        optional=optional,
        attribute=constructor.attribute,
        constant_name=constructor.buffer,
        model_dtype=constructor.dtype,
    )


def input_names(model: LoweredModel, body: Body) -> dict[int, str]:
    """What the forward's parameters are called: as passes say, else as the source does, each once."""
    names: dict[int, str] = {}
    for value in body.inputs:
        known = "positions" if value == POSITIONS else "residual" if value == NO_RESIDUAL else None
        name = identifier(known or model.names.get(value) or body.names.get(value) or "x")
        name = "x" if hasattr(builtins, name) else name
        number = 1
        while name in names.values():
            number += 1
            name = f"{name.rstrip('0123456789').removesuffix('_')}_{number}"
        names[value] = name
    return names
