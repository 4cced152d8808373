"""From a located model and its configuration to its graph: construct, run once on symbolic token ids, collect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kunport_codegen.expression import symbol, unwrap
from kunport_codegen.graph import DType, Graph, Node, refs

from kunport.analysis.config_object import configuration_object
from kunport.analysis.interpreter import Interpreter, NotUnderstoodError, RaisedError
from kunport.analysis.interpreter.calls import run_forward
from kunport.analysis.invocation import build, run_arguments
from kunport.analysis.library import Target
from kunport.analysis.library.installed import installation
from kunport.analysis.scoping import contain_leaks
from kunport.analysis.shapes import TensorType
from kunport.analysis.source import Root
from kunport.analysis.tied import class_constant, tied_tensors
from kunport.analysis.tree import Tree, class_location
from kunport.analysis.values import Instance, SourceClass, Tensor, Value
from kunport.errors import KunportError

# The sizes that stand for any: a batch, and a length that no configuration has.
BATCH, SEQUENCE = symbol("batch", 2), symbol("sequence", 11)
_BASE = "base_model_prefix"
_IGNORED = "_keys_to_ignore_on_load_unexpected"


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a model.

    Attributes:
        graph: the model graph, its renames left empty.
        pretrained: path, class and model type of each pretrained model in the tree, the root first.
        base: the name that the root gives its base model.
        ignored: regular expressions of checkpoint keys that loading leaves aside where the tree has no place for them.
    """

    graph: Graph
    pretrained: list[tuple[str, str, str]]
    base: str
    ignored: list[str]


def read_target(target: Target, config: dict[str, Any]) -> Reading:
    """Reads a located model under an effective configuration. Raises as `assemble` does."""
    transformers = Root(installation().root, "transformers")
    roots = [Root(target.root), transformers] if target.custom else [transformers]
    return assemble(target.module, target.architecture, roots, config, _config_class(target))


def _config_class(target: Target) -> tuple[str, str] | None:
    """Dotted module and name of the configuration's class."""
    if target.config_class is None or target.config_file is None:
        return None
    root = installation().root if installation().contains(target.config_file) else target.root
    return ".".join(target.config_file.relative_to(root).with_suffix("").parts), target.config_class


def assemble(
    module: str, architecture: str, roots: list[Root], config: dict[str, Any], config_class: tuple[str, str] | None
) -> Reading:
    """Reads a model.

    Args:
        module: dotted name of the modeling file below one of ``roots``.
        architecture: the class to construct and run.
        roots: where the source is looked for.
        config: the effective configuration as plain data.
        config_class: (dotted module, name) of the configuration's class, None for a configuration without one.

    Raises:
        KunportError: the source is not valid Python, or does not define the architecture.
    """
    interpreter = Interpreter(roots)
    cls = _load(interpreter, module, architecture)
    interpreter.trace.where = class_location(cls)
    interpreter.trace.begin(architecture)
    settings = configuration_object(interpreter, config, config_class)
    try:
        model = build(interpreter, cls, settings)
    except (NotUnderstoodError, RaisedError) as problem:
        raise KunportError(
            f"{architecture} in {module} cannot be constructed: {problem}.", "Check its source."
        ) from None
    if not isinstance(model, Instance):
        raise KunportError(f"{architecture} in {module} is not a model class.", "Name the class of a language model.")
    tree = Tree(model)
    constructed = len(interpreter.trace.nodes)
    output = _run(interpreter, model)
    graph = _graph(interpreter, tree, architecture, config, output, constructed)
    base, ignored = class_constant(interpreter, model, _BASE) or "", _ignored(interpreter, tree)
    return Reading(graph, list(map(_pretrained, tree.pretrained)), base, ignored)


def _pretrained(model: Instance) -> tuple[str, str, str]:
    config = model.attributes.get("config")
    model_type = config.attributes.get("model_type", "") if isinstance(config, Instance) else ""
    return model.path or "", model.cls.name, str(unwrap(model_type))


def _ignored(interpreter: Interpreter, tree: Tree) -> list[str]:
    declared = [class_constant(interpreter, model, _IGNORED) for model in tree.pretrained]
    patterns = [each for group in declared if isinstance(group, list | tuple | set) for each in group]
    return list(dict.fromkeys(each for each in patterns if isinstance(each, str)))


def _load(interpreter: Interpreter, module: str, architecture: str) -> SourceClass:
    try:
        namespace = interpreter.load(module)
        namespace.file.check()
        cls = namespace.get(architecture)
    except KeyError:
        raise KunportError(f"{module} defines no class {architecture}.", "Name one of its classes.") from None
    except (NotUnderstoodError, RaisedError) as problem:
        raise KunportError(f"{architecture} in {module} cannot be read: {problem}.", "Check the source.") from None
    if not isinstance(cls, SourceClass):
        raise KunportError(f"{architecture} in {module} is not a class.", "Name the class of a language model.")
    return cls


def _run(interpreter: Interpreter, model: Instance) -> Value:
    trace = interpreter.trace
    interpreter.default_dtype = DType("float32")
    frame = trace.frames[1]
    trace.where = frame.where
    with trace.inside(frame):
        kind = TensorType((BATCH, SEQUENCE), DType("int64"))
        ids = Tensor(trace.emit("input", ("input_ids",), kind=kind).id, kind)
        args, kwargs = run_arguments(interpreter, model, ids)
        try:
            result = run_forward(interpreter, model, args, kwargs, frame)
        except (NotUnderstoodError, RaisedError) as problem:
            result = interpreter.unknown(str(problem), ids)
    return _logits(interpreter, result)


def _logits(interpreter: Interpreter, result: Value) -> Value:
    if isinstance(result, Instance):
        return result.attributes.get("logits")
    if isinstance(result, dict):
        return result.get("logits")
    return result[0] if isinstance(result, tuple) and result else result


def _graph(
    interpreter: Interpreter, tree: Tree, architecture: str, config: dict[str, Any], output: Value, constructed: int
) -> Graph:
    trace = interpreter.trace
    for tensor, node in interpreter.states:
        assert tensor.state is not None
        if tensor.state.path:
            node.args = (tensor.state.path,)
        else:
            node.op, node.args = "unknown", ("a parameter outside of the module tree",)
    if not set(refs(result := interpreter.argument_or_none(output))) <= contain_leaks(trace.nodes):
        result = None
    return Graph(
        architecture=architecture,
        model_type=str(config.get("model_type", "")),
        config=config,
        nodes=_needed(trace.nodes, constructed, result),
        frames=trace.frames,
        modules=tree.modules,
        parameters=tree.parameters,
        tied=tied_tensors(interpreter, tree),
        guards=trace.guards,
        sources={name: file.digest for name, file in sorted(interpreter.names.files.items())},
        notes=trace.notes,
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
            wanted.update(_operands(node))
    return kept[::-1]


def _operands(node: Node) -> set[int]:
    found = {*refs(node.args), *refs(node.kwargs)}
    if node.body is not None:
        found |= set(refs([[before, after] for _, before, after in node.body.carried])) | set(refs(node.body.skip))
        for inner in node.body.nodes:
            found |= _operands(inner)
    return found
