"""A model with a cache, read twice: the run over all tokens at hand, and a step that adds one token to them.

The cache is whatever the source makes and hands out: objects, lists and dictionaries that hold tensors. Between the
two runs each of its tensors becomes a ``state`` node, whose sizes say ``past`` where they said ``sequence``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kunport_codegen.expression import Scalar, evaluate, read_field, substitute, symbol, symbols_of, unwrap
from kunport_codegen.graph import Arg, Graph, Ref

from kunport.analysis.assemble import (
    BATCH,
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
from kunport.analysis.interpreter.views import refresh
from kunport.analysis.library import Target
from kunport.analysis.shapes import TensorType
from kunport.analysis.values import Instance, SourceClass, Tensor, Value, is_subclass

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
    interpreter, config = made.interpreter, made.config
    output = run(made, symbol("sequence", length), use_cache=True)
    found = _cache(output)
    if found is None:
        return None
    name, cache = found
    prefill = replace(graph_of(made, logits(output)), states=_states(interpreter, cache))
    made = _forget(made)
    _age(interpreter, cache, symbol("past", length))
    before = _form(cache, config, length + 1)
    output = run(made, 1, use_cache=True, **{name: cache})
    result, after = logits(output), _cache(output)
    if after is None or _form(after[1], config, length) != before:
        result = interpreter.unknown("a cache that a step leaves in another form than it was", result)
    step = graph_of(made, result)
    return Decoding(prefill, replace(step, states=_states(interpreter, after[1]) if after is not None else {}))


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


def _cache(output: Value) -> tuple[str, Value] | None:
    """The cache that a model hands out, and its name."""
    fields = output.attributes if isinstance(output, Instance) else output
    if not isinstance(fields, dict):
        return None
    held = ((name, fields.get(name)) for name in _CACHES)
    return next((pair for pair in held if pair[1] is not None), None)


def _parts(value: Value, path: str, seen: set[int]) -> Iterator[tuple[str, Value, Value, Value]]:
    """What a cache holds: (path, value, its holder, its key there), each object once, in order."""
    pairs: list[tuple[str, Value, Value]]
    holder: Value = value
    if isinstance(value, Instance):
        pairs = [(f"{path}.{name}".lstrip("."), name, held) for name, held in value.attributes.items()]
        holder = value.attributes
    elif isinstance(value, dict):
        pairs = [(f"{path}[{key!r}]", key, held) for key, held in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(f"{path}[{key}]", key, held) for key, held in enumerate(value)]
    else:
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    for inner, key, held in pairs:
        yield inner, held, holder, key
        yield from _parts(held, inner, seen)


def _states(interpreter: Interpreter, cache: Value) -> dict[str, Ref]:
    """The tensors of a cache by path."""
    found = {}
    for path, value, _, _ in _parts(cache, "", set()):
        if isinstance(value, Tensor):
            refresh(interpreter, value)
            found[path] = Ref(value.id)
    return found


def _forget(made: Construction) -> Construction:
    """Drops what a run left in the record, but for what any run would make the same and modules may have kept."""
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
    return replace(made, nodes=len(trace.nodes))


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


def _age(interpreter: Interpreter, cache: Value, past: Scalar) -> None:
    """Makes the cache of a run the one that the next run finds: its tensors states, its tokens past."""

    def aged(size: Value) -> Value:
        if not isinstance(size, Scalar):
            return size
        return Scalar(size.value, substitute(size.expr, {"sequence": past.expr}))

    done: set[Tensor] = set()
    for path, value, holder, key in [*_parts(cache, "", set())]:
        if isinstance(value, Tensor) and value not in done:
            done.add(value)
            value.type = TensorType(tuple(map(aged, value.type.shape)), value.type.dtype)
            value.id = interpreter.trace.emit("state", (path,), kind=value.type).id
            value.view = None
            value.version += 1
        elif isinstance(value, Scalar) and not isinstance(holder, tuple):
            holder[key] = aged(value)


def _form(cache: Value, config: dict[str, Any], past: int) -> dict[str, Any]:
    """The numbers and the shapes of a cache when it holds ``past`` tokens: what tells whether two are of one form."""

    def number(value: Value) -> Any:
        if not isinstance(value, Scalar) or not symbols_of(value.expr) <= {"batch", "past"}:
            return str(value.expr) if isinstance(value, Scalar) else value
        return evaluate(value.expr, lambda path: read_field(config, path), {"batch": unwrap(BATCH), "past": past})

    found: dict[str, Any] = {}
    for path, value, _, _ in _parts(cache, "", set()):
        if isinstance(value, Tensor):
            found[path] = (tuple(map(number, value.type.shape)), value.type.dtype)
        elif isinstance(value, Scalar | bool | int | float | str | None):
            found[path] = number(value)
    return found
