"""Puts the simulated operators where the vendor's wheel would: a module, and ``torch.ops.xspeedgate_ops``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from kunport_runtime.errors import KunportRuntimeError
from kunport_runtime.providers.vendor.generation import Generation
from kunport_runtime.simulator import VARIABLE, attention, elementwise, experts, norms, products, sampling

_log = logging.getLogger(__name__)
_MARK = "__kunport_simulator__"
_FAMILIES = (attention, elementwise, experts, norms, products, sampling)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(family, name) for family in _FAMILIES for name in family.OPERATORS
}
"""What there is a simulation of, by the name in the newest generation."""


def install(wanted: str, generations: Sequence[Generation]) -> Generation:
    """Present a generation's operators, and say so in the log.

    Args:
        wanted: its module's name, or ``1`` for the newest.
        generations: those that there is a table of, the newest first.

    Raises:
        KunportRuntimeError: there is no such generation, or the vendor's own wheel is installed.
    """
    named = {each.module: each for each in generations}
    generation = generations[0] if wanted == "1" else named.get(wanted)
    if generation is None:
        raise KunportRuntimeError(
            f"There is no simulator of {wanted!r}.", f"Set {VARIABLE} to 1 or {' or '.join(named)}."
        )
    present = sys.modules.get(generation.module)
    if not hasattr(present, _MARK) and (present is not None or find_spec(generation.module) is not None):
        raise KunportRuntimeError(
            f"{VARIABLE} asks for the simulator where the vendor's {generation.module} is installed.",
            f"Unset {VARIABLE} to run on Kunlun, or remove the wheel.",
        )
    if present is None:
        _present(generation)
    _log.warning(
        "The vendor's operators (%s) are simulated on the CPU, because %s is set: nothing here runs on Kunlun, and no "
        "time measured here says anything of it.",
        generation.module,
        VARIABLE,
    )
    return generation


def _present(generation: Generation) -> None:
    module = ModuleType(generation.module, "kunport's simulator of the vendor's operators.")
    setattr(module, _MARK, True)
    for name, symbol in generation.operators.items():
        root, *inner, last = symbol.path.split(".")
        function = _with_keywords(FUNCTIONS[name], dict(symbol.keywords))
        if root == generation.module:
            setattr(module, last, function)
        else:  # torch.ops.NAMESPACE
            setattr(_namespace(inner[-1]), last, function)
    sys.modules[generation.module] = module


def _namespace(name: str) -> Any:
    """A namespace of ``torch.ops``, as plain functions: what is simulated needs no dispatcher."""
    existing = vars(torch.ops).get(name)
    if not isinstance(existing, SimpleNamespace):
        existing = SimpleNamespace()
        setattr(torch.ops, name, existing)
    return existing


def _with_keywords(function: Callable[..., Any], keywords: dict[str, str]) -> Callable[..., Any]:
    """The function as an earlier generation calls its arguments."""
    if not keywords:
        return function
    old_to_new = {old: new for new, old in keywords.items()}

    def renamed(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **{old_to_new.get(name, name): value for name, value in options.items()})

    return renamed
