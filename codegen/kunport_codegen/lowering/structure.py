"""From a flat flow to classes: which module's forward does what, what it takes and what it returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kunport_codegen.graph import Location, Ref
from kunport_codegen.lowering.flow import Flow, Op, ordered, parent

_CONTAINERS = frozenset(("ModuleList", "ModuleDict", "Sequential"))


@dataclass(slots=True)
class Body:
    """The forward of one module: its steps in order, and the values that go in and come out.

    A step that enters a module inside is an `Op` called ``enter`` whose fact is that module's body.
    """

    path: str
    cls: str
    where: Location
    inputs: list[int]
    outputs: list[int]
    steps: list[Op]
    names: dict[int, str] = field(default_factory=dict)

    def children(self) -> dict[str, Body]:
        """The bodies entered, by path, in order."""
        return {step.fact.path: step.fact for step in self.steps if step.name == "enter"}


def build(flow: Flow) -> Body:
    """The root module's body, with those of all modules inside."""
    _dissolve(flow)
    kept = {""}
    for op in flow.ops:
        kept.update(path for path in _ancestors(op.owner) if not _is_container(flow, path))
    return _body(flow, "", flow.ops, kept, [flow.output])


def _ancestors(path: str) -> Iterable[str]:
    while path:
        yield path
        path = parent(path)


def _is_container(flow: Flow, path: str) -> bool:
    module = flow.graph.modules.get(path)
    return module is None or module.cls in _CONTAINERS


def _dissolve(flow: Flow) -> None:
    """A module that only does one step of arithmetic, or is a table with something around it, is done where it is called."""
    holds = {parent(op.member.path) for op in flow.ops if op.member is not None}
    for path in sorted({op.owner for op in flow.ops if op.owner}, key=lambda path: -path.count(".")):
        own = [op for op in flow.ops if op.owner == path]
        module = flow.graph.modules.get(path)
        leaf = module is not None and module.leaf is not None
        if path not in holds and (leaf or len([op for op in own if op.name != "view"]) <= 1):
            for op in own:
                op.owner, op.origin = parent(path), op.origin or path
    for op in flow.ops:
        while op.owner and _is_container(flow, op.owner):
            op.owner = parent(op.owner)


def _body(flow: Flow, path: str, ops: list[Op], kept: set[str], outputs: list[int]) -> Body:
    groups: dict[str, list[Op]] = {}
    for op in ops:
        groups.setdefault(_child(op.owner, path, kept), []).append(op)
    own = groups.pop(path, [])
    steps = list(own)
    for child, inner in groups.items():
        steps.append(_enter(flow, child, inner, ops, kept, outputs))
    place = {id(op): position for position, op in enumerate(ops)}
    first = {child: place[id(inner[0])] for child, inner in groups.items()}
    steps.sort(key=lambda op: first[op.fact.path] if op.name == "enter" else place[id(op)])
    module = flow.graph.modules[path]
    made = {result for op in ops for result in op.results}
    inputs = list(dict.fromkeys(value for op in ops for value in op.inputs() if value not in made))
    body = Body(path, module.cls, module.where, inputs, outputs, ordered(steps))
    body.names = _input_names(flow, path)
    body.inputs.sort(key=lambda value: _rank(body, value))
    return body


def _child(owner: str, path: str, kept: set[str]) -> str:
    """The module directly inside ``path``, among those that are kept, on the way to ``owner``; ``path`` itself if none."""
    way = [candidate for candidate in _ancestors(owner) if candidate in kept and len(candidate) > len(path)]
    return way[-1] if way else path


def _enter(flow: Flow, child: str, inner: list[Op], ops: list[Op], kept: set[str], outputs: list[int]) -> Op:
    made = {result for op in inner for result in op.results}
    inside = {id(op) for op in inner}
    read = [value for op in ops if id(op) not in inside for value in op.inputs()] + outputs
    results = list(dict.fromkeys(value for value in read if value in made))
    body = _body(flow, child, inner, kept, results)
    return Op("enter", tuple(Ref(value) for value in body.inputs), {}, results, parent(child), inner[0].where, fact=body)


def _input_names(flow: Flow, path: str) -> dict[int, str]:
    """What the source's forward calls the values that it is given."""
    names: dict[int, str] = {}
    for frame in flow.graph.frames:
        if frame.kind == "module" and frame.path == path:
            for name, arg in frame.inputs.items():
                if isinstance(arg, Ref):
                    names.setdefault(flow.resolve(arg.id), name)
    return names


def _rank(body: Body, value: int) -> tuple[int, int]:
    """Positions first, then the source's order of parameters, then what passes added."""
    known = list(body.names)
    return (0, 0) if value < 0 and value == -1 else (1, known.index(value)) if value in known else (2, 0)


