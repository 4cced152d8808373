"""Tensors of the state with two names."""

from __future__ import annotations

import re
from itertools import cycle

from kunport.analysis.interpreter import Interpreter, NotUnderstoodError, RaisedError
from kunport.analysis.interpreter.operations import plain
from kunport.analysis.tree import Tree
from kunport.analysis.values import Instance, Value
from kunport.errors import KunportError


def tied_tensors(interpreter: Interpreter, tree: Tree) -> list[tuple[str, str]]:
    """Pairs (path, path whose tensor it is): shared by the constructor, or tied after it as the configuration says.

    Each pretrained model lists patterns of names below it that are tied to other ones; several names are matched in
    alphabetical order, the sources in turn.
    """
    tied = dict(tree.shared)
    for model in tree.pretrained:
        keys = _declared(interpreter, model)
        prefix = f"{model.path}." if model.path else ""
        names = sorted(path.removeprefix(prefix) for path in tree.parameters if path.startswith(prefix))
        for target, source in keys.items():
            try:
                sources, targets = ([name for name in names if re.match(each, name)] for each in (source, target))
            except (re.error, TypeError, RecursionError, OverflowError):
                interpreter.trace.note(f"a name of tied weights is no pattern: {source!r} or {target!r}")
                continue
            for name, other in zip(targets, cycle(sources), strict=False):
                if name != other:
                    tied[prefix + name] = tied.get(prefix + other, prefix + other)
    return list(tied.items())


def _declared(interpreter: Interpreter, model: Instance) -> dict[str, str]:
    """The patterns that the model ties under its configuration; that it does is a decision of the configuration."""
    keys = plain(class_constant(interpreter, model, "_tied_weights_keys"))
    config = class_constant(interpreter, model, "config")
    if not isinstance(keys, dict | list | tuple) or not keys or not isinstance(config, Instance):
        return {}
    ties = class_constant(interpreter, config, "tie_word_embeddings")
    try:
        if ties is None or not interpreter.truth(ties):
            return {}
    except NotUnderstoodError as problem:
        raise KunportError(f"Whether weights are tied is not known: {problem}.", "Check the configuration.") from None
    if isinstance(keys, dict):
        return keys
    return dict.fromkeys((each for each in keys if isinstance(each, str)), _input_embeddings(interpreter, model))


def _input_embeddings(interpreter: Interpreter, model: Instance) -> str:
    """The tensor that names alone are tied to, as Transformers 4 had it: the input embeddings' below the model."""
    getter = class_constant(interpreter, model, "get_input_embeddings")
    try:
        with interpreter.handling():
            embeddings = interpreter.call(getter, [], {})
    except (NotUnderstoodError, RaisedError):
        return ""
    path = (embeddings.path or "") if isinstance(embeddings, Instance) else ""
    return re.escape(f"{path.removeprefix(model.path or '').lstrip('.')}.weight") + "$"


def class_constant(interpreter: Interpreter, instance: Instance, name: str) -> Value | None:
    """An attribute that the source may define, None where it defines none that can be read."""
    try:
        with interpreter.handling():
            return interpreter.attribute(instance, name)
    except (NotUnderstoodError, RaisedError):
        return None
