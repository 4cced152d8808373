"""The catalogue: every variant, found by looking into the folders of this package, one file each."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from kunport.variants import attention, embedding, experts, head, mlp, norm, position, residual, whole
from kunport.variants.variant import Variant

# In the order in which facts are read and shown.
FOLDERS: tuple[ModuleType, ...] = (attention, position, norm, mlp, experts, residual, embedding, head, whole)


@dataclass(frozen=True, slots=True)
class Entry:
    """A variant with its folder, its file's name and its documentation."""

    folder: str
    name: str
    doc: str
    variant: Variant


@cache
def catalogue() -> tuple[Entry, ...]:
    """Every variant, by folder and then by name."""
    return tuple(_entries())


def _entries() -> Iterator[Entry]:
    for folder in FOLDERS:
        for found in pkgutil.iter_modules(folder.__path__):
            module = importlib.import_module(f"{folder.__name__}.{found.name}")
            name = folder.__name__.rpartition(".")[2]
            yield Entry(name, found.name, (module.__doc__ or "").strip(), module.VARIANT)
