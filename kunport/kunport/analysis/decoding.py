"""A model with a cache, read twice: the run over all tokens at hand, and a step that adds one token to them.

The cache is whatever the source makes and hands out: objects, lists and dictionaries that hold tensors. Between the
two runs each of its tensors becomes a ``state`` node, whose sizes say ``past`` where they said ``sequence``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kunport_codegen.expression import Scalar, symbol, symbols_of
from kunport_codegen.graph import Arg, Graph

from kunport.analysis.assemble import (
    LENGTH,
    Construction,
    config_class_of,
    construct,
    graph_of,
    logits,
    operands,
    roots_of,
    run,
)
from kunport.analysis.interpreter import Interpreter, NotUnderstoodError, RaisedError
from kunport.analysis.library import Target
from kunport.analysis.memory import Memory
from kunport.analysis.parameters import named as parameter_names
from kunport.analysis.values import Bound, Function, Instance, SourceClass, Tensor, Value, is_subclass

# What a model's output calls its cache, and its forward takes it by.
_CACHES = ("past_key_values", "cache_params", "state")


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a model decodes.

    Attributes:
        prefill: reads all tokens at hand; its `Graph.states` are what it leaves in the cache.
        step: reads one more token ``[batch, 1]`` and the cache through ``state`` nodes, and leaves the next one.
    """

    prefill: Graph
    step: Graph


def analyze_decoding(model: str | Path, *, config: Mapping[str, Any] | None = None) -> Decoding | None:
    """Reads how a model decodes with its cache; None if it has none. Arguments and errors are those of `analyze`."""
    from kunport.analysis.config import load_config
    from kunport.analysis.library import locate

    target = locate(model)
    if config:
        target = replace(target, raw_config={**target.raw_config, **config})
    return read_decoding(target, load_config(target))


def read_decoding(target: Target, config: dict[str, Any], length: int = LENGTH) -> Decoding | None:
    """Reads a located model under an effective configuration; see `analyze_decoding`.

    ``length`` is the number of tokens of the prefill, and in the cache of the step, where the source decides something
    on it; `Graph.sizes` lists such decisions.
    """
    made = construct(target.module, target.architecture, roots_of(target), config, config_class_of(target))
    _register_layers(made.interpreter, target.module)
    return decode(made, length)


def decode(made: Construction, length: int = LENGTH) -> Decoding | None:
    """Runs a model twice, see `read_decoding`."""
    interpreter = made.interpreter
    output, caches = _first_run(made, symbol("sequence", length))
    if not caches:
        return None
    prefill = graph_of(made, logits(output))
    made, memory = _forget(made, caches)
    prefill = replace(prefill, states=memory.states(interpreter))
    memory.age(interpreter, symbol("past", length))
    before = memory.form(made.config, length + 1)
    output = run(made, 1, use_cache=True, **caches)
    memory = replace(memory, caches={**caches, **_caches(output)})
    result = logits(output)
    if memory.form(made.config, length) != before:
        result = interpreter.unknown("a cache that a step leaves in another form than it was", result)
    return Decoding(prefill, replace(graph_of(made, result), states=memory.states(interpreter)))


def _first_run(made: Construction, length: Scalar) -> tuple[Value, dict[str, Value]]:
    """The output for ``length`` tokens, and the caches that it leaves.

    A model that hands out none is given one, as those that generate with it do.
    """
    interpreter = made.interpreter
    before = {path: dict(instance.attributes) for path, instance in made.tree.instances.items()}
    output = run(made, length, use_cache=True)
    caches = _caches(output)
    if caches or not _takes(interpreter, made.model, "past_key_values"):
        return output, caches
    del interpreter.trace.nodes[made.nodes :]
    for path, instance in made.tree.instances.items():
        instance.attributes = before[path]
    try:
        cls = interpreter.load("transformers.cache_utils").get("DynamicCache")
        cache = interpreter.instantiate(cls, [], {"config": made.model.attributes.get("config")})
    except (KeyError, NotUnderstoodError, RaisedError):
        return output, {}
    given = {"past_key_values": cache}
    return run(made, length, use_cache=True, **given), given


def _takes(interpreter: Interpreter, model: Instance, name: str) -> bool:
    """Whether a model's forward has a parameter of this name."""
    method = interpreter.find(model, "forward")
    function = method.function if isinstance(method, Bound) else method
    if not isinstance(function, Function):
        return False
    return name in parameter_names(function.node.args)


def _register_layers(interpreter: Interpreter, module: str) -> None:
    """Layers of a cache that a modeling file defines: importing the file would register them by their kind."""
    namespace = interpreter.load(module)
    for name in [name for name in namespace.bindings() if "Cache" in name]:
        try:
            kinds = interpreter.load("transformers.cache_utils").get("DYNAMIC_LAYER_TYPE_MAPPING")
            cls = namespace.get(name)
            if isinstance(cls, SourceClass) and "_layer_type" in cls.members and not is_subclass(cls, "StaticLayer"):
                kinds[interpreter.attribute(cls, "_layer_type")] = cls
        except (KeyError, NotUnderstoodError, RaisedError):
            continue


def _caches(output: Value) -> dict[str, Value]:
    """The cache that a model hands out, by its name."""
    fields = output.attributes if isinstance(output, Instance) else output
    if not isinstance(fields, dict):
        return {}
    held = [(name, fields.get(name)) for name in _CACHES]
    return dict([pair for pair in held if pair[1] is not None][:1])


def _forget(made: Construction, caches: dict[str, Value]) -> tuple[Construction, Memory]:
    """Drops what a run left in the record, but for what any run would make the same; and says where the rest is kept.

    Modules may keep either: a table that they moved to another dtype, or the state of a recurrence.
    """
    trace = made.interpreter.trace
    nodes = trace.nodes[made.nodes :]
    gone: set[int] = set()
    del trace.nodes[made.nodes :]
    for node in nodes:
        if node.op in ("input", "mask") or operands(node) & gone or _sizes((node.args, node.kwargs)):
            gone.add(node.id)
        else:
            trace.nodes.append(node)
    trace.sizes.clear()
    kept = [
        (path, instance, name)
        for path, instance in made.tree.instances.items()
        for name, value in instance.attributes.items()
        if isinstance(value, Tensor) and value.state is None and value.id in gone
    ]
    return replace(made, nodes=len(trace.nodes)), Memory(caches, kept)


def _sizes(value: Arg) -> set[str]:
    """The sizes that an argument mentions."""
    match value:
        case Scalar():
            return symbols_of(value.expr)
        case list() | tuple():
            return set().union(*map(_sizes, value))
        case dict():
            return _sizes(list(value.values()))
        case slice():
            return _sizes((value.start, value.stop, value.step))
        case _:
            return set()
