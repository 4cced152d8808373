"""Layers and norms that the constructor builds and that are never reached, because something before is not understood.

Nothing can be said of them but that they are there. Where everything is understood, what is not reached is not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kunport_codegen.graph import Module, Node

from kunport.variants.fact import Fact, Facts, LayerKind
from kunport.variants.model import Model, stack_of
from kunport.variants.variant import Variant


def unreached_layers(model: Model, variants: Iterable[Variant]) -> list[LayerKind]:
    """A kind for each stack of layers that are never called; every key that a layer may have is opaque."""
    cause = next(iter(model.graph.unknowns()), None)
    if cause is None:
        return []
    called = {frame.path for frame in model.graph.frames}
    stacks: dict[str, list[int]] = {}
    for path in model.graph.modules:
        place = stack_of(model.graph, path)
        if place is not None and path not in called and not _in_layer(model, path):
            stacks.setdefault(place[0], []).append(place[1])
    keys = [key for variant in variants if variant.scope not in ("model", "norm") for key in variant.keys]
    found = []
    for stack, numbers in stacks.items():
        inside = [path for path in model.graph.modules if path.startswith(f"{stack}.{numbers[0]}.")]
        names = [
            path.removeprefix(f"{stack}.{numbers[0]}.") for path in inside if _like_norm(model.graph.modules[path])
        ]
        every = [*keys, *_norm_keys(variants, names)]
        found.append(LayerKind(stack, tuple(sorted(numbers)), {key: _opaque(cause) for key in every}))
    return found


def unreached_norms(model: Model, variants: Iterable[Variant]) -> Facts:
    """The keys of what may be norms outside of layers that are never called."""
    cause = next(iter(model.graph.unknowns()), None)
    if cause is None:
        return {}
    called = {frame.path for frame in model.graph.frames}
    modules = model.graph.modules.items()
    names = [
        path for path, module in modules if _like_norm(module) and path not in called and not _in_layer(model, path)
    ]
    return {key: _opaque(cause) for key in _norm_keys(variants, names)}


def _norm_keys(variants: Iterable[Variant], names: list[str]) -> Iterator[str]:
    for variant in variants:
        if variant.scope == "norm":
            yield from (key.replace("NAME", name) for name in names for key in variant.keys)


def _opaque(cause: Node) -> Fact:
    reason = f"{cause.where}: never reached, because of what is not understood there: {cause.args[0]}"
    return Fact(None, cause.where, reason=reason)


def _in_layer(model: Model, path: str) -> bool:
    """Whether a module lies inside of a numbered one."""
    parents = path.split(".")
    return any(stack_of(model.graph, ".".join(parents[:end])) is not None for end in range(1, len(parents)))


def _like_norm(module: Module) -> bool:
    """Whether a module may be a norm: it has no parts and no parameters but a weight and a bias."""
    return not module.children and module.leaf in (None, "LayerNorm", "RMSNorm") and 0 < len(module.parameters) <= 2
