"""From a located model to its effective configuration as plain data."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from kunport.analysis.config.construction import construct
from kunport.analysis.config.old_fields import with_renamed_fields
from kunport.analysis.config.own_class import accepted, class_fields, is_own
from kunport.analysis.config.plain import plain_fields
from kunport.analysis.interpreter import Interpreter, NotUnderstoodError, RaisedError
from kunport.analysis.interpreter.operations import describe
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.library.installed import installation
from kunport.analysis.library.target import Target
from kunport.analysis.source import Root
from kunport.analysis.values import SourceClass
from kunport.errors import KunportError


class _Interpreter(Interpreter):
    """One that reads messages and keeps no line numbers, which take half of the time and which no field needs."""

    def begin(self, node: ast.stmt, scope: Scope) -> None:
        pass

    def at(self, node: ast.expr, scope: Scope) -> None:
        pass

    def message(self, node: ast.expr, scope: Scope) -> str:
        try:
            text = self.evaluate(node, scope)
        except (NotUnderstoodError, RaisedError):
            return ""
        return " ".join(text.split()) if isinstance(text, str) else ""


def load_config(target: Target) -> dict[str, Any]:
    """The effective configuration.

    Attribute names are those of the configuration object itself (``n_embd``, not the ``hidden_size`` that
    ``attribute_map`` also calls it); tuples are lists and dtypes are torch's names, as ``to_dict`` writes them. A value
    that is not known is an `Opaque` with the reason.

    Raises:
        KunportError: the class refuses the fields, or cannot be found.
    """
    if target.config_class is None or target.config_file is None:
        return dict(target.raw_config)
    interpreter, cls = config_class(target.config_class, target.config_file, target.root)
    fields = dict(target.raw_config)
    try:
        if is_own(cls):
            made = plain_fields(interpreter, construct(interpreter, cls, accepted(interpreter, cls, fields)))
            return {**class_fields(interpreter, cls), **made}
        if fields:
            fields["name_or_path"] = str(target.checkpoint or "")
        config = plain_fields(interpreter, construct(interpreter, cls, fields))
        return with_renamed_fields(interpreter, config, cls, target.raw_config) if target.custom else config
    except RaisedError as problem:
        raise KunportError(
            f"{target.config_class} refuses the configuration: {problem.message.rstrip('.') or problem.name}.",
            "Correct it in config.json.",
        ) from problem
    except NotUnderstoodError as problem:  # outside of the constructor, whose fields would be opaque
        raise KunportError(
            f"{target.config_class} is not understood: {problem}.", "Write its fields in a way that can be read."
        ) from problem


def config_class(name: str, file: Path, root: Path) -> tuple[Interpreter, SourceClass]:
    """The configuration's class, and an interpreter that has its source."""
    library = installation()
    transformers = Root(library.root, "transformers")
    native = library.contains(file)
    folder = library.root if native else root
    interpreter = _Interpreter([transformers] if native else [Root(folder), transformers], contain=False)
    try:
        cls = interpreter.load(".".join(file.relative_to(folder).with_suffix("").parts)).get(name)
    except (NotUnderstoodError, RaisedError, KeyError) as problem:
        raise KunportError(f"{name} in {file} cannot be read: {problem}.", "Check the source.") from problem
    if not isinstance(cls, SourceClass):
        raise KunportError(f"{name} in {file} is not a class that can be read: {describe(cls)}.", "Check the source.")
    return interpreter, cls
