"""Which fields of a configuration its class computes from which others: ``head_dim`` from ``hidden_size``, say.

The class's constructor runs once more, on fields that remember their names.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from kunport_codegen.expression import Scalar, origins_of

from kunport.analysis.config.construction import construct, constructor_of
from kunport.analysis.config.loading import config_class
from kunport.analysis.config.own_class import accepted, is_own
from kunport.analysis.interpreter import NotUnderstoodError, RaisedError
from kunport.analysis.interpreter.containers import lift
from kunport.analysis.library.target import Target
from kunport.analysis.trace import INDEXED
from kunport.analysis.values import Function, Value
from kunport.errors import KunportError


def derived_fields(target: Target) -> dict[str, frozenset[str]]:
    """Path of a field, as `Expr` has it but without places in lists -> the fields that it is computed from.

    Fields that no other one decides are left out, as is what a constructor computes that is not understood.
    """
    if target.config_class is None or target.config_file is None:
        return {}
    interpreter, cls = config_class(target.config_class, target.config_file, target.root)
    fields = copy.deepcopy(target.raw_config)
    try:
        if is_own(cls):
            fields = accepted(interpreter, cls, fields)
        initializer = constructor_of(interpreter, cls)
        defaults = initializer.defaults if isinstance(initializer, Function) else {}
        given = {name: lift(value, name) for name, value in {**defaults, **fields}.items()}
        config = construct(interpreter, cls, given, traced=True)
    except (NotUnderstoodError, RaisedError, KunportError):
        return {}
    found: dict[str, set[str]] = {}
    for name, value in config.attributes.items():
        for path, origins in _origins(name, value):
            others = {each for each in origins if each.partition("[")[0] != name}
            found.setdefault(path, set()).update(others)
    return {path: frozenset(others) for path, others in found.items() if others}


def _origins(path: str, value: Value) -> Iterator[tuple[str, set[str]]]:
    """The paths of a value and of what it holds, each with its fields."""
    if isinstance(value, Scalar):
        yield path, {INDEXED.sub("", each) for each in origins_of(value.expr)}
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _origins(path, each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _origins(f"{path}[{key!r}]", each)
