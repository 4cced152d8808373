"""From a located model and its configuration to its graph: construct, run once on symbolic token ids, collect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kunport_codegen.expression import Scalar, symbol, unwrap
from kunport_codegen.graph import DType, Graph, Node, refs

from kunport.analysis.alternatives import disagreements
from kunport.analysis.config_object import configuration_object
from kunport.analysis.interpreter import Interpreter, NotUnderstoodError, RaisedError
from kunport.analysis.interpreter.calls import run_forward
from kunport.analysis.interpreter.operations import plain
from kunport.analysis.invocation import build, run_arguments
from kunport.analysis.library import Target
from kunport.analysis.library.installed import installation
from kunport.analysis.saved_buffers import settled, taken_values
from kunport.analysis.scoping import contain_leaks
from kunport.analysis.shapes import TensorType
from kunport.analysis.source import Root
from kunport.analysis.tied import class_constant, tied_tensors
from kunport.analysis.tree import Tree, class_location
from kunport.analysis.values import Instance, SourceClass, Tensor, Unknown, Value
from kunport.errors import KunportError

# The sizes that stand for any: a batch, and a length that no configuration has.
BATCH, LENGTH = symbol("batch", 2), 11
_BASE = "base_model_prefix"
_IGNORED = "_keys_to_ignore_on_load_unexpected"


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a model.

    Attributes:
        graph: the model graph, its renames left empty.
        pretrained: path, class and model type of each pretrained model in the tree, the root first.
        base: the name that the root gives its base model.
    """

    graph: Graph
    pretrained: list[tuple[str, str, str]]
    base: str

    @property
    def ignored(self) -> list[str]:
        """See `Graph.ignored`."""
        return self.graph.ignored


@dataclass(frozen=True, slots=True)
class Construction:
    """A model that was built and can be run.

    Attributes:
        interpreter: which built it, and holds the record.
        model, tree: the model, and its modules by path.
        architecture, config: as they were asked for.
        nodes: how many nodes the constructor made.
    """

    interpreter: Interpreter
    model: Instance
    tree: Tree
    architecture: str
    config: dict[str, Any]
    nodes: int


def read_target(target: Target, config: dict[str, Any], length: int = LENGTH) -> Reading:
    """Reads a located model under an effective configuration. See `assemble`."""
    try:
        return assemble(target.module, target.architecture, roots_of(target), config, config_class_of(target), length)
    except (NotUnderstoodError, RaisedError) as problem:  # outside of any function of the model's
        raise KunportError(
            f"{target.architecture} in {target.module} cannot be read: {problem}.", "Check its source."
        ) from None


def roots_of(target: Target) -> list[Root]:
    """Where the source of a model is looked for."""
    transformers = Root(installation().root, "transformers")
    return [Root(target.root), transformers] if target.custom else [transformers]


def config_class_of(target: Target) -> tuple[str, str] | None:
    """Dotted module and name of the configuration's class."""
    if target.config_class is None or target.config_file is None:
        return None
    root = installation().root if installation().contains(target.config_file) else target.root
    return ".".join(target.config_file.relative_to(root).with_suffix("").parts), target.config_class


def assemble(
    module: str,
    architecture: str,
    roots: list[Root],
    config: dict[str, Any],
    config_class: tuple[str, str] | None,
    length: int = LENGTH,
) -> Reading:
    """Reads a model.

    Args:
        module: dotted name of the modeling file below one of ``roots``.
        architecture: the class to construct and run.
        roots: where the source is looked for.
        config: the effective configuration as plain data.
        config_class: (dotted module, name) of the configuration's class, None for a configuration without one.
        length: of the sequence where the source decides something on it; `Graph.sizes` lists such decisions.

    Raises:
        KunportError: the source is not valid Python, or does not define the architecture.
    """
    made = construct(module, architecture, roots, config, config_class)
    graph = graph_of(made, logits(run(made, symbol("sequence", length))))
    base = unwrap(class_constant(made.interpreter, made.model, _BASE)) or ""
    return Reading(graph, list(map(_pretrained, made.tree.pretrained)), base)


def construct(
    module: str, architecture: str, roots: list[Root], config: dict[str, Any], config_class: tuple[str, str] | None
) -> Construction:
    """Builds the model. Arguments and errors are those of `assemble`."""
    interpreter = Interpreter(roots)
    cls = _load(interpreter, module, architecture)
    interpreter.trace.where = class_location(cls)
    interpreter.trace.begin(architecture)
    if interpreter.names.is_custom(module):
        for text in disagreements(cls.scope.namespace.file):
            interpreter.trace.note(text)
    settings = configuration_object(interpreter, config, config_class)
    try:
        model = build(interpreter, cls, settings)
    except (NotUnderstoodError, RaisedError) as problem:
        raise KunportError(
            f"{architecture} in {module} cannot be constructed: {problem}.", "Check its source."
        ) from None
    if not isinstance(model, Instance):
        raise KunportError(f"{architecture} in {module} is not a model class.", "Name the class of a language model.")
    interpreter.trace.constructed = {node.id: node for node in interpreter.trace.nodes}
    return Construction(interpreter, model, Tree(model), architecture, config, len(interpreter.trace.nodes))


def _pretrained(model: Instance) -> tuple[str, str, str]:
    config = model.attributes.get("config")
    model_type = config.attributes.get("model_type", "") if isinstance(config, Instance) else ""
    return model.path or "", model.cls.name, str(unwrap(model_type))


def _ignored(interpreter: Interpreter, tree: Tree) -> list[str]:
    declared = [plain(class_constant(interpreter, model, _IGNORED)) for model in tree.pretrained]
    patterns = [each for group in declared if isinstance(group, list | tuple | set) for each in group]
    # Sorted: Transformers keeps some of them in a set, whose order is another in every process.
    return sorted({each for each in patterns if isinstance(each, str)})


def _load(interpreter: Interpreter, module: str, architecture: str) -> SourceClass:
    try:
        namespace = interpreter.load(module)
        if interpreter.names.is_custom(module):  # Transformers itself can be imported, so it is valid as a whole
            namespace.file.check()
        cls = namespace.get(architecture)
    except KeyError:
        raise KunportError(f"{module} defines no class {architecture}.", "Name one of its classes.") from None
    except (NotUnderstoodError, RaisedError) as problem:
        raise KunportError(f"{architecture} in {module} cannot be read: {problem}.", "Check the source.") from None
    if not isinstance(cls, SourceClass):
        raise KunportError(f"{architecture} in {module} is not a class.", "Name the class of a language model.")
    return cls


def run(made: Construction, length: int | Scalar, **given: Value) -> Value:
    """What the model's forward gives for token ids ``[batch, length]`` and the named arguments that it takes."""
    interpreter, trace = made.interpreter, made.interpreter.trace
    interpreter.default_dtype = DType("float32")
    frame = trace.frames[1]
    trace.where = frame.where
    with trace.inside(frame):
        kind = TensorType((BATCH, length), DType("int64"))
        ids = Tensor(trace.emit("input", ("input_ids",), kind=kind).id, kind)
        try:
            args, kwargs = run_arguments(interpreter, made.model, ids)
            return run_forward(interpreter, made.model, args, {**kwargs, **given}, frame)
        except (NotUnderstoodError, RaisedError) as problem:
            return interpreter.unknown(str(problem), ids)


def logits(result: Value) -> Value:
    """The logits in what a model's forward gives: those called so, else the first tensor."""
    held = result.attributes if isinstance(result, Instance) else result
    if not isinstance(held, dict):
        return result[0] if isinstance(result, tuple | list) and result else result
    named = (value for name, value in held.items() if "logits" in str(name) and value is not None)
    first = (value for value in held.values() if isinstance(value, Tensor | Unknown))
    return next(named, None) or next(first, None)


def graph_of(made: Construction, output: Value) -> Graph:
    """The graph of what has been run, with these logits."""
    interpreter, trace, tree = made.interpreter, made.interpreter.trace, made.tree
    for tensor, node in interpreter.states:
        assert tensor.state is not None
        if tensor.state.path:
            node.args = (tensor.state.path,)
        else:
            node.op, node.args = "unknown", ("a parameter outside of the module tree",)
    if not set(refs(result := interpreter.argument_or_none(output))) <= contain_leaks(trace.nodes):
        result = None
    nodes = _needed(trace.nodes, made.nodes, result)
    parameters = settled(tree.parameters, [tensor.state.path for tensor, _ in interpreter.states if tensor.state])
    return Graph(
        architecture=made.architecture,
        model_type=str(made.config.get("model_type", "")),
        config=made.config,
        nodes=nodes,
        frames=list(trace.frames),
        modules=tree.modules,
        parameters=parameters,
        tied=tied_tensors(interpreter, tree),
        guards=trace.guards,
        choices=trace.choices,
        counters=trace.counters,
        sources={name: file.digest for name, file in sorted(interpreter.names.files.items())},
        notes=[*trace.notes, *taken_values(parameters, nodes)],
        sizes=list(trace.sizes.values()),
        ignored=_ignored(interpreter, tree),
        output=result,
    )


def _needed(nodes: list[Node], constructed: int, output: Any) -> list[Node]:
    """The nodes of the run, and those of the constructor that it reads."""
    wanted = set(refs(output))
    kept: list[Node] = []
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        incomplete = node.op == "unknown" and node.args[0] != "a parameter outside of the module tree"
        if position >= constructed or node.id in wanted or incomplete:
            kept.append(node)
            wanted.update(operands(node))
    return kept[::-1]


def operands(node: Node) -> set[int]:
    """The ids that a node reads, those that its body reads included."""
    found = set(refs((node.args, node.kwargs) if node.kwargs else node.args))
    if node.body is not None:
        found |= set(refs([[before, after] for _, before, after in node.body.carried])) | set(refs(node.body.skip))
        for inner in node.body.nodes:
            found |= operands(inner)
    return found
