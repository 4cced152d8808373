"""The module tree that a constructor built: paths, parameters, and what each module stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kunport_codegen.expression import Scalar, unwrap
from kunport_codegen.graph import Location, Module, Parameter

from kunport.analysis.interpreter import Interpreter, NotUnderstoodError, RaisedError
from kunport.analysis.values import Instance, NativeClass, SourceClass, Tensor, Value, is_subclass

_MODULE = "torch.nn.Module"
_NOWHERE = Location("", 0)


class Tree:
    """Modules and parameters by path, in the order of torch's ``named_modules``.

    Attributes:
        modules, parameters: as `Graph` has them.
        shared: (path, path that has the same tensor) for tensors with several places.
        pretrained: path, class and model type of each pretrained model, the root first.
    """

    def __init__(self, root: Instance) -> None:
        self.modules: dict[str, Module] = {}
        self.parameters: dict[str, Parameter] = {}
        self.shared: list[tuple[str, str]] = []
        self.pretrained: list[tuple[str, str, str]] = []
        self._add(root, "")

    def _add(self, instance: Instance, path: str) -> None:
        instance.path = path
        module = self.modules[path] = Module(
            path, instance.cls.short, _leaf(instance), _where(instance), _attributes(instance)
        )
        if is_subclass(instance.cls, "transformers.modeling_utils.PreTrainedModel"):
            self.pretrained.append((path, instance.cls.name, _model_type(instance)))
        for name, value in _members(instance):
            inner = f"{path}.{name}" if path else name
            if isinstance(value, Tensor):
                self._add_tensor(module, name, inner, value)
            elif value.path is None:
                module.children.append(inner)
                self._add(value, inner)

    def _add_tensor(self, module: Module, name: str, path: str, tensor: Tensor) -> None:
        state = tensor.state
        assert state is not None
        module.parameters.append(name)
        if state.path:
            self.shared.append((path, state.path))
        else:
            state.path = path
        self.parameters[path] = Parameter(path, tensor.type.shape, tensor.type.dtype, state.buffer)


def _members(instance: Instance) -> Iterator[tuple[str, Value]]:
    """A module's own parameters and children by name."""
    items = instance.items
    contained = items.items() if isinstance(items, dict) else ((str(at), each) for at, each in enumerate(items or ()))
    for name, value in (*instance.attributes.items(), *contained):
        tensor = isinstance(value, Tensor) and value.state is not None
        if tensor or (isinstance(value, Instance) and is_subclass(value.cls, _MODULE)):
            yield name, value


def _leaf(instance: Instance) -> str | None:
    """The torch.nn class at the root of a module, if that class computes."""
    for cls in instance.cls.mro:
        if isinstance(cls, NativeClass) and "forward" in cls.members:
            return cls.short
    return None


def _where(instance: Instance) -> Location:
    cls = instance.cls
    if isinstance(cls, SourceClass):
        return Location(cls.scope.namespace.file.name, cls.node.lineno)
    return instance.where or _NOWHERE


def _attributes(instance: Instance) -> dict[str, Any]:
    return {name: value for name, value in instance.attributes.items() if _is_plain(value)}


def _is_plain(value: Value) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, Scalar | int | float | str | None)


def _model_type(instance: Instance) -> str:
    config = instance.attributes.get("config")
    return str(unwrap(config.attributes.get("model_type", ""))) if isinstance(config, Instance) else ""


def class_constant(interpreter: Interpreter, instance: Instance, name: str) -> Value | None:
    """An attribute that the source's class may have, None where it has none that can be read."""
    try:
        return interpreter.attribute(instance, name)
    except (NotUnderstoodError, RaisedError):
        return None


def tied_tensors(
    interpreter: Interpreter, tree: Tree, model: Instance, config: dict[str, Any]
) -> list[tuple[str, str]]:
    """Tensors with two names: shared by the constructor, or tied after it because the configuration says so."""
    tied = list(tree.shared)
    keys = class_constant(interpreter, model, "_tied_weights_keys") if config.get("tie_word_embeddings") else None
    if isinstance(keys, dict):
        for pattern, source in keys.items():
            for path in tree.parameters:
                if re.fullmatch(pattern, path) and source in tree.parameters and path != source:
                    tied.append((path, source))
    return tied
