"""The labels of norms: form, epsilon and where the epsilon comes from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from kunport.oracle.labels import Scope
from kunport.oracle.norm_form import NormForm, find_form
from kunport.oracle.watch import Record

_OTHER_EPSILON = 3.7e-4
Shapes = dict[str, torch.Size]


def norm_shapes(model: nn.Module, record: Record) -> Shapes:
    """Module path -> the trailing axes that a leaf reads: as many as its parameters have."""
    names = {module: path for path, module in model.named_modules()}
    shapes: Shapes = {}
    for call in record.calls:
        read, made = call.input, call.result
        if call.module not in names or names[call.module] in shapes or list(call.module.children()):
            continue
        if read is None or made is None or read.shape != made.shape or isinstance(call.module, nn.Linear):
            continue
        axes = max([parameter.ndim for parameter in call.module.parameters()] or [1])
        shapes[names[call.module]] = read.shape[-axes:]
    return shapes


def find_norms(model: nn.Module, shapes: Shapes) -> dict[str, NormForm]:
    """Module path -> form, of every leaf that is a norm."""
    modules = dict(model.named_modules())
    found = ((path, find_form(modules[path], shape)) for path, shape in shapes.items())
    return {path: form for path, form in found if form is not None}


def read_in_half(model: nn.Module, record: Record) -> set[str]:
    """Paths of the modules that read bfloat16 in a run of a model of that type."""
    names = {module: path for path, module in model.named_modules()}
    return {
        names[call.module]
        for call in record.calls
        if call.module in names and call.input is not None and call.input.dtype == torch.bfloat16
    }


def label_norm(scope: Scope, name: str, form: NormForm, source: str, *, halved: bool) -> None:
    """Label one norm, called ``name`` in its layer; ``halved`` where it reads the dtype of a bfloat16 model."""
    key = f"norm[{name}]"
    scope.label(f"{key}.kind", form.kind)
    scope.label(f"{key}.size", form.size)
    scope.label(f"{key}.weight", form.weight)
    scope.label(f"{key}.bias", form.bias)
    if form.weight:
        scope.label(f"{key}.offset", form.offset)
    if form.epsilon is None:
        scope.skip(f"{key}.epsilon", "small inputs are not normalised as by an epsilon under the root")
    else:
        scope.label(f"{key}.epsilon", form.epsilon)
        scope.label(f"{key}.epsilon_source", source)
    if not halved:
        scope.skip(f"{key}.cast", "it does not read the dtype of the model")
    elif form.cast:
        scope.label(f"{key}.cast", form.cast)
    else:
        scope.skip(f"{key}.cast", "the rounding in bfloat16 does not tell the orders apart")


def epsilon_sources(
    build: Callable[[dict[str, Any]], nn.Module], config: Any, norms: dict[str, NormForm], shapes: Shapes
) -> dict[str, str]:
    """Module path -> ``config.FIELD``, ``class default``, ``torch default`` or ``literal``.

    A field is the source if the norm of a model built with another value of it has that value. ``build`` makes the
    model with changed fields; ``class default`` is where the constructor was not given the epsilon that it takes,
    ``torch default`` where it takes none, and torch's function is called without one.
    """
    wanted = {path: shapes[path] for path in norms}
    sources: dict[str, str] = {}
    for field, value in epsilon_fields(config):
        if value == _OTHER_EPSILON:
            continue
        for path, form in find_norms(build({field: _OTHER_EPSILON}), wanted).items():
            if form.epsilon is not None and abs(form.epsilon / _OTHER_EPSILON - 1) < 0.01:
                sources[path] = f"config.{field}"
    modules = dict(build({}).named_modules())
    with _constructions({type(modules[path]) for path in norms}) as given:
        model = build({})
    for path, module in model.named_modules():
        if path in norms and path not in sources:
            if module in given:
                sources[path] = "literal" if given[module] else "class default"
            else:
                with _bare_calls() as bare:
                    find_norms(model, {path: wanted[path]})
                sources[path] = "torch default" if bare else "literal"
    return sources


@contextmanager
def _bare_calls() -> Iterator[list[str]]:
    """The names of torch's functions for norms that are called inside without an epsilon."""
    bare: list[str] = []
    own = {name: (getattr(functional, name), place) for name, place in (("layer_norm", 4), ("rms_norm", 3))}

    def watched(name: str) -> Any:
        function, place = own[name]

        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) <= place and "eps" not in kwargs:
                bare.append(name)
            return function(*args, **kwargs)

        return call

    for name in own:
        setattr(functional, name, watched(name))
    try:
        yield bare
    finally:
        for name, (function, _) in own.items():
            setattr(functional, name, function)


def epsilon_fields(config: Any) -> list[tuple[str, float]]:
    """Dotted path and value of each number whose field's name speaks of an epsilon."""

    def visit(holder: Any, prefix: str) -> Iterator[tuple[str, float]]:
        for name, value in vars(holder).items():
            if isinstance(value, float) and "eps" in name and name[0] != "_":
                yield prefix + name, value
            elif hasattr(value, "to_dict") and hasattr(value, "model_type"):
                yield from visit(value, f"{prefix}{name}.")

    return list(visit(config, ""))


@contextmanager
def _constructions(classes: set[type]) -> Iterator[dict[nn.Module, bool]]:
    """Whether each instance built inside was given its epsilon; classes that take none are left out."""
    given: dict[nn.Module, bool] = {}
    own = {each: each.__dict__.get("__init__") for each in classes}

    def watched(original: Any) -> Any:
        signature = inspect.signature(original)
        names = [name for name in signature.parameters if "eps" in name]

        def construct(self: nn.Module, *args: Any, **kwargs: Any) -> None:
            passed = any(name in signature.bind(self, *args, **kwargs).arguments for name in names)
            original(self, *args, **kwargs)
            if names:
                given[self] = passed  # the outermost constructor returns last

        return construct

    for each in classes:
        each.__init__ = watched(each.__init__)  # type: ignore[misc]
    try:
        yield given
    finally:
        for each, original in own.items():
            if original is None:
                del each.__init__  # type: ignore[misc]
            else:
                each.__init__ = original  # type: ignore[misc]
