"""From a located model to its effective configuration as plain data."""

from __future__ import annotations

from typing import Any

import libcst as cst

from kunport.analysis.config.construction import construct
from kunport.analysis.config.plain import plain_fields
from kunport.analysis.interpreter import NotUnderstoodError, Interpreter, RaisedError
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.library.installed import installation
from kunport.analysis.library.target import Target
from kunport.analysis.source import Root
from kunport.analysis.values import SourceClass
from kunport.errors import KunportError


class _Interpreter(Interpreter):
    """One that reads messages and keeps no line numbers, which take half of the time and which no field needs."""

    def begin(self, node: cst.CSTNode, scope: Scope) -> None:
        pass

    def at(self, node: cst.CSTNode, scope: Scope) -> None:
        pass

    def message(self, node: cst.BaseExpression, scope: Scope) -> str:
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
    library = installation()
    transformers = Root(library.root, "transformers")
    native = library.contains(target.config_file)
    folder = library.root if native else target.root
    interpreter = _Interpreter([transformers] if native else [Root(folder), transformers], contain=False)
    dotted = ".".join(target.config_file.relative_to(folder).with_suffix("").parts)
    cls = interpreter.load(dotted).get(target.config_class)
    if not isinstance(cls, SourceClass):
        raise KunportError(f"{target.config_class} in {target.config_file} is not a class.", "Check the source.")
    fields = dict(target.raw_config)
    if fields:
        fields["name_or_path"] = str(target.checkpoint or "")
    try:
        return plain_fields(interpreter, construct(interpreter, cls, fields))
    except RaisedError as problem:
        raise KunportError(
            f"{target.config_class} refuses the configuration: {problem.message.rstrip('.') or problem.name}.",
            "Correct it in config.json.",
        ) from problem
