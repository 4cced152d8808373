"""One class for all modules that the source makes from one: what differs becomes a parameter of its constructor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kunport_codegen.expression import Expr, Scalar, unwrap
from kunport_codegen.graph import Graph
from kunport_codegen.lowering.flow import Op, basename
from kunport_codegen.lowering.layers import unify
from kunport_codegen.lowering.members import Repeat, Value
from kunport_codegen.lowering.selection import DifferentLayersError, same
from kunport_codegen.lowering.structure import Body, bodies


def share_classes(graph: Graph, root: Body) -> None:
    """Give modules of one source class one body, with parameters for what differs; or different class names."""
    groups: dict[str, list[Op]] = {}
    for step in _entered(root):
        groups.setdefault(step.fact.cls, []).append(step)
    for name, steps in groups.items():
        if len(steps) > 1:
            _share(graph, name, steps)


def _entered(body: Body) -> Iterable[Op]:
    """Every step into a module, innermost first."""
    for step in body.steps:
        for inner in bodies(step):
            yield from _entered(inner)
        if step.name == "enter":
            yield step
            yield from (other for _, other in step.instead)


def _share(graph: Graph, name: str, steps: list[Op]) -> None:
    instances: list[Body] = [step.fact for step in steps]
    parameters = _Parameters(graph, instances)
    try:
        shared = unify(instances, parameters)
    except DifferentLayersError:
        _rename(name, instances)
        return
    for position, (step, body) in enumerate(zip(steps, instances, strict=True)):
        arguments = {parameter: values[position] for parameter, values in parameters.values.items()}
        step.fact = replace(shared, path=body.path, arguments=arguments)


def _rename(name: str, instances: list[Body]) -> None:
    """Modules that compute differently are told apart by the attribute that holds them."""
    for body in instances[1:]:
        own = "".join(part.capitalize() for part in basename(body.path).split("_"))
        body.cls = f"{name}{own}"


class _Parameters:
    """Merges the values of several instances: those that differ are named, and kept by name."""

    def __init__(self, graph: Graph, instances: Sequence[Body]) -> None:
        self.modules = [graph.modules.get(body.path) for body in instances]
        self.values: dict[str, list[Value]] = {}

    def merge(self, values: Sequence[Value]) -> Value:
        """The common value, or the parameter that stands for it."""
        if all(same(value, values[0]) for value in values):
            return values[0]
        if all(isinstance(value, Repeat) and value.times == values[0].times for value in values):
            return Repeat(self.merge([value.value for value in values]), values[0].times)
        if any(not isinstance(value, Scalar | int | float | bool | str) for value in values):
            raise DifferentLayersError("a setting differs that is no plain value")
        for name, known in self.values.items():
            if all(same(first, second) for first, second in zip(known, values, strict=True)):
                return Expr("symbol", (name,))
        name = self._name(values)
        self.values[name] = list(values)
        return Expr("symbol", (name,))

    def test(self, truth: Sequence[bool]) -> Expr:
        """No condition tells instances apart."""
        raise DifferentLayersError("some instances have a layer that others lack")

    def of(self, places: Sequence[int]) -> _Parameters:
        """No condition tells some instances from others."""
        raise DifferentLayersError("some instances have a module that others lack")

    def _name(self, values: Sequence[Value]) -> str:
        """What the source's constructor calls the value, else a plain name."""
        declared: list[dict[str, Any]] = [module.attributes if module is not None else {} for module in self.modules]
        names = [
            name
            for name in declared[0]
            if name.isidentifier()
            and all(
                name in attributes and unwrap(attributes[name]) == unwrap(value)
                for attributes, value in zip(declared, values, strict=True)
            )
        ]
        name = next((name for name in names if name not in self.values), "size")
        number = 1
        while (name if number == 1 else f"{name}_{number}") in self.values:
            number += 1
        return name if number == 1 else f"{name}_{number}"
