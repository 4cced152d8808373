"""From a flat flow to classes: which module's forward does what, what it takes and what it returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kunport_codegen.graph import Frame, Location, Ref
from kunport_codegen.lowering.flow import POSITIONS, Flow, Op, layer_of, ordered, parent
from kunport_codegen.lowering.members import Prefix, Value

# Operators without operands: parameters, constants of the configuration, and tables that follow from it.
LEAVES = frozenset(("parameter", "tensor", "constant"))
_CONTAINERS = frozenset(("ModuleList", "ModuleDict", "Sequential"))


@dataclass(slots=True)
class Body:
    """The forward of one module: its steps in order, and the values that go in and come out.

    ``names`` is what the source calls the inputs; ``arguments`` what this instance of the class is constructed with.
    A step that enters a module inside is an `Op` called ``enter`` whose fact is that module's body.
    """

    path: str
    cls: str
    where: Location
    inputs: list[int]
    outputs: list[int]
    steps: list[Op]
    names: dict[int, str] = field(default_factory=dict)
    arguments: dict[str, Value] = field(default_factory=dict)

    def children(self) -> dict[str, Body]:
        """The bodies entered, by path, in order."""
        return {step.fact.path: step.fact for step in self.steps if step.name == "enter"}


def bodies(step: Op) -> list[Body]:
    """The bodies that a step runs: that of layers, or a module's and those that other layers have in its place."""
    if step.name == "layers":
        return [step.fact.body, *(other for _, other in step.fact.others)]
    return [step.fact, *(other.fact for _, other in step.instead)] if step.name == "enter" else []


def steps_of(body: Body) -> Iterator[Op]:
    """Every step of a body and of those inside it, each before what it runs, layers once."""
    for step in body.steps:
        yield step
        for inner in bodies(step):
            yield from steps_of(inner)


def core(root: Body) -> Body:
    """The module that runs the layers, or the outermost one that runs several that do."""
    body = root
    while not any(step.name == "layers" for step in body.steps):
        inner = [step.fact for step in body.steps if step.name == "enter" and _runs_layers(step.fact)]
        if len(inner) != 1:
            break
        body = inner[0]
    return body


def _runs_layers(body: Body) -> bool:
    return any(step.name == "layers" for step in steps_of(body))


def build(flow: Flow) -> Body:
    """The root module's body, with those of all modules inside."""
    _spread_tables(flow)
    _name_contained(flow)
    _dissolve(flow)
    leaves = {op.results[0]: op for op in flow.ops if op.name in LEAVES}
    flow.ops = [op for op in flow.ops if op.name not in LEAVES]
    kept = {""}
    for op in flow.ops:
        kept.update(path for path in _ancestors(op.owner) if not _is_container(flow, path))
    return _Builder(flow, kept, leaves, _readers(flow), _frames(flow)).body("", flow.ops, [flow.output])


def _readers(flow: Flow) -> dict[int, list[tuple[tuple[int, int], int]]]:
    """Value -> (where it is read: the operator's place and the operand's, the operator's identity), the output last."""
    readers: dict[int, list[tuple[tuple[int, int], int]]] = {}
    for place, op in enumerate(flow.ops):
        for operand, value in enumerate(op.inputs()):
            readers.setdefault(value, []).append(((place, operand), id(op)))
    readers.setdefault(flow.output, []).append(((len(flow.ops), 0), 0))
    return readers


def _frames(flow: Flow) -> dict[str, list[Frame]]:
    """Path -> the calls of that module's forward."""
    frames: dict[str, list[Frame]] = {}
    for frame in flow.graph.frames:
        if frame.kind == "module":
            frames.setdefault(frame.path, []).append(frame)
    return frames


def _ancestors(path: str) -> Iterable[str]:
    while path:
        yield path
        path = parent(path)


def _is_container(flow: Flow, path: str) -> bool:
    module = flow.graph.modules.get(path)
    return module is None or module.cls in _CONTAINERS or path in flow.spread


def _spread_tables(flow: Flow) -> None:
    """What a module around the token table does is done by the one that runs the layers, for stages begin there."""
    lists = {layer[0] for op in flow.ops if (layer := layer_of(op.owner)) is not None}
    for op in flow.ops:
        holder = parent(op.member.path) if op.member is not None else ""
        is_table = op.member is not None and op.member.factory == "VocabParallelEmbedding" and parent(holder) != ""
        if is_table and not any(path.startswith(f"{holder}.") for path in lists):
            flow.spread.add(holder)


def _name_contained(flow: Flow) -> None:
    """A layer in a list or a sequence is called after that as well: ``ffn_0``."""
    for op in flow.ops:
        while op.member is not None and (place := parent(op.member.path)) and _is_container(flow, place):
            op.member.path = f"{place}_{op.member.name}"
            op.owner = parent(place)
            if "prefix" in op.member.kwargs:
                op.member.kwargs["prefix"] = Prefix(op.member.name)


def _dissolve(flow: Flow) -> None:
    """A module that does one step of arithmetic, or is a layer with something around it, is done where it is called."""
    members = {op.member.path for op in flow.ops if op.member is not None}
    holds = {parent(path) for path in members}
    holds.update(parent(op.args[0]) for op in flow.ops if op.name == "parameter")
    for path in sorted({op.owner for op in flow.ops if op.owner}, key=lambda path: -path.count(".")):
        own = [op for op in flow.ops if op.owner == path]
        module = flow.graph.modules.get(path)
        leaf = module is not None and module.leaf is not None
        whole = leaf or path in members or len([op for op in own if op.name != "view"]) <= 1
        if path not in holds and whole:
            for op in own:
                op.owner, op.origin = parent(path), op.origin or path
    for op in flow.ops:
        while op.owner and _is_container(flow, op.owner):
            op.owner = parent(op.owner)


@dataclass(slots=True)
class _Builder:
    """Builds bodies. ``kept`` modules get a class; ``leaves`` are the operators that each body has for itself."""

    flow: Flow
    kept: set[str]
    leaves: dict[int, Op]
    readers: dict[int, list[tuple[tuple[int, int], int]]]
    frames: dict[str, list[Frame]]

    def body(self, path: str, ops: list[Op], outputs: list[int]) -> Body:
        """The body of the module at ``path``, whose operators, those of modules inside included, are ``ops``."""
        groups: dict[str, list[Op]] = {}
        for op in ops:
            groups.setdefault(self._child(op.owner, path), []).append(op)
        own = groups.pop(path, [])
        steps = own + [self._enter(child, inner) for child, inner in groups.items()]
        place = {id(op): position for position, op in enumerate(ops)}
        first = {child: place[id(inner[0])] for child, inner in groups.items()}
        steps.sort(key=lambda op: first[op.fact.path] if op.name == "enter" else place[id(op)])
        read = dict.fromkeys(value for op in own for value in op.inputs() if value in self.leaves)
        module = self.flow.graph.modules[path]
        made = {result for op in ops for result in op.results} | self.leaves.keys()
        inputs = list(dict.fromkeys(value for op in ops for value in op.inputs() if value not in made))
        names = self._input_names(path)
        inputs.sort(key=lambda value: _rank(list(names), value))
        leaves = [self._leaf(path, self.leaves[value]) for value in read]
        return Body(path, module.cls, module.where, inputs, outputs, [*leaves, *ordered(steps)], names)

    def _leaf(self, path: str, op: Op) -> Op:
        """The body's own copy of an operator without operands; a parameter is named from the body's module on."""
        if op.name != "parameter":
            return replace(op)
        inside = op.args[0].removeprefix(f"{path}." if path else "")
        if path and inside == op.args[0]:
            self.flow.refuse(op, f"{path} reads {op.args[0]}, which belongs to another module")
        return replace(op, args=(inside, self.flow.graph.parameters[op.args[0]].shape))

    def _child(self, owner: str, path: str) -> str:
        """The module directly inside ``path``, among those kept, on the way to ``owner``; ``path`` itself if none."""
        way = [found for found in _ancestors(owner) if found in self.kept and len(found) > len(path)]
        return way[-1] if way else path

    def _enter(self, child: str, inner: list[Op]) -> Op:
        """The step into a module; its results are in the order in which they are first read outside."""
        inside = {id(op) for op in inner}
        made = {
            result: min(outer)
            for op in inner
            for result in op.results
            if (outer := [place for place, reader in self.readers.get(result, ()) if reader not in inside])
        }
        results = sorted(made, key=made.__getitem__)
        body = self.body(child, inner, results)
        args = tuple(Ref(value) for value in body.inputs)
        return Op("enter", args, {}, results, parent(child), inner[0].where, fact=body)

    def _input_names(self, path: str) -> dict[int, str]:
        """What the source's forward calls the values that it is given."""
        names: dict[int, str] = {}
        for frame in self.frames.get(path, ()):
            for name, arg in frame.inputs.items():
                if isinstance(arg, Ref) and name.isidentifier():  # an operand without a name is called by its number
                    names.setdefault(self.flow.resolve(arg.id), name)
        return names


def _rank(known: list[int], value: int) -> tuple[int, int]:
    """Positions first, then the source's order of parameters, then what passes added."""
    return (0, 0) if value == POSITIONS else (1, known.index(value)) if value in known else (2, 0)
