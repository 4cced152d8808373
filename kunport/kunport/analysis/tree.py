"""The module tree that a constructor built: paths, parameters, and what each module stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kunport_codegen.expression import Scalar
from kunport_codegen.graph import Location, Module, Parameter

from kunport.analysis.values import Instance, NativeClass, SourceClass, State, Tensor, Value, is_subclass

_MODULE = "torch.nn.Module"
_NOWHERE = Location("", 0)


class Tree:
    """Modules and parameters by path, in the order of torch's ``named_modules``.

    Attributes:
        modules, parameters: as `Graph` has them.
        shared: (path, path that has the same tensor) for tensors with several places.
        pretrained: the pretrained models of Transformers in it, the root first.
        instances: the modules themselves, by path.
    """

    def __init__(self, root: Instance) -> None:
        self.modules: dict[str, Module] = {}
        self.parameters: dict[str, Parameter] = {}
        self.shared: list[tuple[str, str]] = []
        self.pretrained: list[Instance] = []
        self.instances: dict[str, Instance] = {}
        self._add(root, "")

    def _add(self, instance: Instance, path: str) -> None:
        instance.path = path
        self.instances[path] = instance
        module = self.modules[path] = Module(
            path,
            instance.cls.short,
            _leaf(instance),
            _where(instance),
            _attributes(instance),
            floats=instance.floats,
            made=instance.where,
        )
        if is_subclass(instance.cls, "transformers.modeling_utils.PreTrainedModel"):
            self.pretrained.append(instance)
        for name, value in _members(instance):
            inner = f"{path}.{name}" if path else name
            if isinstance(value, Tensor):
                self._add_tensor(module, name, inner, value)
            elif value.path is None:
                module.children.append(inner)
                self._add(value, inner)
            else:
                self._add_again(value, inner)

    def _add_again(self, instance: Instance, path: str) -> None:
        """Another place of a module: torch lists its tensors under both, the module itself only once."""
        for name, value in _members(instance):
            if isinstance(value, Instance):
                self._add_again(value, f"{path}.{name}")
            elif value.state.path != f"{path}.{name}":
                self.shared.append((f"{path}.{name}", value.state.path))
                self.parameters[f"{path}.{name}"] = _parameter(f"{path}.{name}", value, value.state)

    def _add_tensor(self, module: Module, name: str, path: str, tensor: Tensor) -> None:
        state = tensor.state
        assert state is not None
        module.parameters.append(name)
        if state.path:
            self.shared.append((path, state.path))
        else:
            state.path = path
        self.parameters[path] = _parameter(path, tensor, state)


def _parameter(path: str, tensor: Tensor, state: State) -> Parameter:
    return Parameter(path, tensor.type.shape, tensor.type.dtype, state.buffer, state.initial)


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
    if isinstance(instance.cls, SourceClass):
        return class_location(instance.cls)
    return instance.where or _NOWHERE


def class_location(cls: SourceClass) -> Location:
    """The line of a class statement."""
    return Location(cls.scope.namespace.file.name, cls.node.lineno)


def _attributes(instance: Instance) -> dict[str, Any]:
    return {name: value for name, value in instance.attributes.items() if _is_plain(value)}


def _is_plain(value: Value) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, Scalar | int | float | str | None)
