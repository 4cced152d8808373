"""Layers of a list: one class for all of them, with what differs decided by the layer's index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kunport_codegen.expression import Expr, Scalar, const
from kunport_codegen.graph import Ref
from kunport_codegen.lowering.errors import Refusal
from kunport_codegen.lowering.flow import Flow, Op, basename, parent
from kunport_codegen.lowering.layer_inputs import carried_of, order_inputs, share_inputs
from kunport_codegen.lowering.members import Member, Value
from kunport_codegen.lowering.selection import COUNTS, DifferentLayersError, Selector, same
from kunport_codegen.lowering.structure import Body


class Merger(Protocol):
    """Makes one value of those that corresponding modules have, or a condition of who has something."""

    def merge(self, values: Sequence[Value]) -> Value: ...

    def test(self, truth: Sequence[bool]) -> Expr: ...

    def of(self, places: Sequence[int]) -> Merger: ...


@dataclass(slots=True)
class LayerList:
    """All layers of a module list: one body, and how many times. Layers on a condition of ``others`` have its body.

    A step that runs them is an `Op` called ``layers`` whose fact is this; its arguments are the first layer's, its
    results the last layer's. ``carried[k]`` is which result of a layer is the next one's input k, None if all have the
    same.
    """

    path: str
    count: int | Expr
    body: Body
    carried: list[int | None]
    others: list[tuple[Expr, Body]] = field(default_factory=list)


def fold_layers(flow: Flow, body: Body) -> None:
    """Make the layers of each list in the body, or in a module inside it, one step."""
    for child in body.children().values():
        fold_layers(flow, child)
    lists: dict[str, list[Op]] = {}
    for step in body.steps:
        if step.name == "enter" and basename(step.fact.path).isdigit():
            lists.setdefault(parent(step.fact.path), []).append(step)
    for path, steps in lists.items():
        try:
            folded = _fold(flow, path, steps)
        except DifferentLayersError as error:
            flow.refusals.append(Refusal(steps[0].where, steps[0].fact.cls, str(error)))
            continue
        place = body.steps.index(steps[0])
        kept = [step for step in body.steps if not any(step is layer for layer in steps)]
        body.steps = [*kept[:place], folded, *kept[place:]]


def _fold(flow: Flow, path: str, steps: list[Op]) -> Op:
    bodies = [step.fact for step in steps]
    if [basename(body.path) for body in bodies] != [str(index) for index in range(len(bodies))]:
        raise DifferentLayersError("its layers are not called one after another, each once")
    share_inputs(steps)
    order_inputs(steps)
    carried = [carried_of(steps, position) for position in range(len(bodies[0].inputs))]
    (_, body), *others = _kinds(flow, bodies)
    layers = LayerList(path, _count(flow, len(bodies)), body, carried, others)
    return Op("layers", steps[0].args, {}, steps[-1].results, parent(path), steps[0].where, fact=layers)


def _kinds(flow: Flow, bodies: list[Body]) -> list[tuple[Expr, Body]]:
    """One body, or one for each way in which layers are put together, and on what condition; of the first, on none."""
    groups: dict[object, list[int]] = {}
    for number, body in enumerate(bodies):
        groups.setdefault(_composition(body), []).append(number)
    selector = Selector(flow.graph, len(bodies), guards=flow.guards)
    try:
        return [(const(True), unify(bodies, selector))]
    except DifferentLayersError as error:
        if len(groups) == 1:
            _tell_apart(bodies)
            try:
                return [(const(True), unify(bodies, selector))]
            except DifferentLayersError:
                raise error from None
        found: list[tuple[Expr, Body]] = []
        for numbers in groups.values():
            test = selector.test([number in numbers for number in range(len(bodies))])
            one = unify([bodies[number] for number in numbers], Selector(flow.graph, len(bodies), numbers, flow.guards))
            found.append((test, one))
    _name_apart([body for _, body in found])
    return found


def _composition(body: Body) -> object:
    """The modules that a layer enters and the layers that it calls, in order."""
    return body.cls, tuple(basename(path) for step in body.steps if (path := _held(step)))


def _held(step: Op) -> str:
    """The module or layer that a step runs, "" where it runs none."""
    if step.name == "enter":
        path: str = step.fact.path
        return path
    return step.member.path if step.name == "call" and step.member is not None else ""


def _tell_apart(bodies: Sequence[Body]) -> None:
    """Modules inside that have one source class and do different things get classes of their own."""
    for child in [basename(path) for path in bodies[0].children()]:
        column = [inner for body in bodies for path, inner in body.children().items() if basename(path) == child]
        groups: dict[object, list[Body]] = {}
        for inner in column:
            groups.setdefault(tuple((step.name, basename(_held(step))) for step in inner.steps), []).append(inner)
        if len(groups) > 1 and len(column) == len(bodies):
            kinds = [group[0] for group in groups.values()]
            _name_apart(kinds)
            for kind, group in zip(kinds, groups.values(), strict=True):
                for inner in group:
                    inner.cls = kind.cls


def _name_apart(bodies: list[Body]) -> None:
    """Bodies of one source class that are put together differently are told apart by a module that only they have."""
    held = [{basename(child): None for child in body.children()} for body in bodies]
    names = [body.cls for body in bodies]
    for place, body in enumerate(bodies):
        if names.count(body.cls) > 1 and place:
            others = {name for other, parts in enumerate(held) if other != place for name in parts}
            own = next((name for name in held[place] if name not in others), f"other_{place}")
            body.cls += "".join(part.capitalize() for part in own.split("_"))


def _count(flow: Flow, count: int) -> int | Expr:
    fields = [name for name in COUNTS if flow.graph.config.get(name) == count]
    return Expr("field", (fields[0],)) if fields else count


def unify(bodies: Sequence[Body], selector: Merger) -> Body:
    """One body for corresponding modules of all layers, in terms of the values of the one with the most steps.

    Raises:
        DifferentLayersError: they do different things.
    """
    longest = max(bodies, key=lambda body: len(body.steps))
    aligned = [_align(longest, body) for body in bodies]
    steps = []
    for position, step in enumerate(longest.steps):
        column = [body[position] for body in aligned]
        steps.append(_merge(step, column, selector))
    named = bodies[-1]
    names = {
        mine: named.names[theirs]
        for mine, theirs in zip(longest.inputs, named.inputs, strict=True)
        if theirs in named.names
    }
    arguments = {key: selector.merge([body.arguments[key] for body in bodies]) for key in longest.arguments}
    return replace(longest, steps=steps, names={**longest.names, **names}, arguments=arguments)


def _align(model: Body, body: Body) -> list[Op | None]:
    """The body's steps in the places of the model's; None where it leaves a step out that returns what it is given."""
    if len(body.inputs) != len(model.inputs) or len(body.outputs) != len(model.outputs):
        raise DifferentLayersError(f"{model.cls} takes or returns different values from layer to layer")
    values = dict(zip(model.inputs, body.inputs, strict=True))
    aligned: list[Op | None] = []
    rest = list(body.steps)
    for step in model.steps:
        if rest and _alike(step, rest[0], values):
            values.update(zip(step.results, rest[0].results, strict=True))
            aligned.append(rest.pop(0))
            continue
        passed = [value for value in step.inputs() if value >= 0]
        if step.member is None or len(passed) != len(step.results):
            raise DifferentLayersError(f"{model.cls} computes differently from layer to layer")
        values.update((result, values[value]) for result, value in zip(step.results, passed, strict=True))
        aligned.append(None)
    if rest or [values[value] for value in model.outputs] != body.outputs:
        raise DifferentLayersError(f"{model.cls} computes differently from layer to layer")
    return aligned


def _alike(model: Op, op: Op, values: dict[int, int]) -> bool:
    """Whether two steps do the same to corresponding values, constants apart."""
    if model.name != op.name or len(model.results) != len(op.results) or model.kwargs.keys() != op.kwargs.keys():
        return False
    if model.member is not None and (op.member is None or _kind(model.member) != _kind(op.member)):
        return False
    if model.name == "constant" and model.fact.formula != op.fact.formula:
        return False
    if [values.get(value, value) for value in model.inputs()] != op.inputs():
        return False
    return model.name != "enter" or basename(model.fact.path) == basename(op.fact.path)


def _kind(member: Member) -> tuple[str, str, str]:
    return member.name, member.factory, member.returns


def _merge(step: Op, column: Sequence[Op | None], selector: Merger) -> Op:
    """One step for the column, in the values of ``step``. A layer that leaves it out has no say in its constants."""
    filled = [op if op is not None else step for op in column]
    merged = replace(step)
    if step.member is not None:
        merged.member = _merge_members([op.member if op is not None else None for op in column], selector)
    elif step.name == "enter":
        _merge_modules(merged, filled, selector)
    merged.args = tuple(
        _merge_args(arg, [op.args[position] for op in filled], selector) for position, arg in enumerate(step.args)
    )
    merged.kwargs = {
        key: _merge_args(arg, [op.kwargs[key] for op in filled], selector) for key, arg in step.kwargs.items()
    }
    return merged


def _merge_modules(merged: Op, column: Sequence[Op], selector: Merger) -> None:
    """One module for the column, or one for each class in it, of which a condition on the layer's index picks."""
    try:
        merged.fact = unify([op.fact for op in column], selector)
    except DifferentLayersError:
        classes = list(dict.fromkeys(op.fact.cls for op in column))
        if len(classes) == 1:
            raise
        modules = {name: _of_class(name, column, selector) for name in classes}
        merged.fact = modules.pop(merged.fact.cls)
        merged.instead = [
            (selector.test([op.fact.cls == name for op in column]), replace(merged, fact=body))
            for name, body in modules.items()
        ]


def _of_class(name: str, column: Sequence[Op], selector: Merger) -> Body:
    """The module of those layers that have this class."""
    own = [place for place, op in enumerate(column) if op.fact.cls == name]
    return unify([column[place].fact for place in own], selector.of(own))


def _merge_args(model: Any, values: list[Any], selector: Merger) -> Any:
    """An argument of a step: references stay the model's; constants are the same or follow the layer's index."""
    if isinstance(model, Ref) or all(_equal(value, model) for value in values):
        return model
    if isinstance(model, tuple) and all(isinstance(value, tuple) and len(value) == len(model) for value in values):
        return tuple(_merge_args(item, [value[at] for value in values], selector) for at, item in enumerate(model))
    if isinstance(model, slice) and all(isinstance(value, slice) for value in values):
        ends = [(value.start, value.stop, value.step) for value in values]
        return slice(*_merge_args((model.start, model.stop, model.step), ends, selector))
    if all(isinstance(value, int | float | Scalar) for value in values):
        return selector.merge(values)
    raise DifferentLayersError("a constant differs from layer to layer")


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, list | tuple):
        return isinstance(second, list | tuple) and len(first) == len(second) and all(map(_equal, first, second))
    if isinstance(first, slice):
        return isinstance(second, slice) and all(
            _equal(getattr(first, part), getattr(second, part)) for part in ("start", "stop", "step")
        )
    return isinstance(first, Ref) or same(first, second)


def _merge_members(members: Sequence[Member | None], selector: Merger) -> Member:
    present = [member for member in members if member is not None]
    first = present[0]
    if any(len(member.args) != len(first.args) for member in present):
        raise DifferentLayersError(f"{first.name} is built differently from layer to layer")
    # A layer without the member has no say in its arguments: it repeats those of the first that has it.
    filled = [member if member is not None else first for member in members]
    args = [selector.merge([member.args[position] for member in filled]) for position in range(len(first.args))]
    keys = dict.fromkeys(key for member in present for key in member.kwargs)
    kwargs = {key: selector.merge([member.kwargs.get(key) for member in filled]) for key in keys}
    if "prefix" in kwargs:
        kwargs["prefix"] = kwargs.pop("prefix")
    when = None if len(present) == len(members) else selector.test([member is not None for member in members])
    return replace(first, args=args, kwargs=kwargs, when=when)
