"""Makes adapters importable and registers them with vLLM.

An adapter's folder becomes a package below ``kunport_adapters``, so that its files import each other
relatively. Nothing of it is imported here: vLLM imports the class by name, in the process that needs it.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import vllm
from vllm import ModelRegistry
from vllm.logger import init_logger
from vllm.model_executor.models.registry import _LazyRegisteredModel, _ModelInfo

from kunport_model_adapters.discovery import Adapter, find_adapters, shipped_choices

PACKAGE = "kunport_adapters"

logger = init_logger(f"vllm.{PACKAGE}")


@dataclass(frozen=True, slots=True)
class Registered:
    """An adapter's class, known by the names of its module and itself until it is needed: what vLLM's registry holds.

    `ModelRegistry.register_model` would make the like from text, but vLLM looks at such a class in a process of its
    own, which imports all of vLLM once more: 10 s for each adapter that it has not met before. That is meant to keep
    code that starts a device on import out of the server; adapters do no such thing. For vLLM 0.32; it goes once a
    model can tell the registry what it supports.
    """

    module: str
    name: str

    def inspect_model_cls(self) -> Any:
        return _ModelInfo.from_model_cls(self.load_model_cls())

    def load_model_cls(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)


def install_all(path: str, shipped: str = "none") -> list[Adapter]:
    """Install every adapter of a search path, and the shipped ones that none of it is for.

    Args:
        path: see `find_adapters`.
        shipped: "none", "all", or "new": those for whose architecture vLLM has no class of its own.

    Raises:
        AdapterError: see `find_adapters`.
    """
    adapters = find_adapters(path)
    if shipped != "none":
        named = {adapter.manifest.architecture for adapter in adapters}
        adapters += [adapter for adapter, reason in shipped_choices(named, shipped, is_native) if not reason]
    for adapter in adapters:
        install(adapter)
    return adapters


def is_native(architecture: str) -> bool:
    """Whether vLLM has a class of its own for an architecture, other than its backend for all of Transformers."""
    known = ModelRegistry.models.get(architecture)
    return isinstance(known, _LazyRegisteredModel) and not known.module_name.endswith(".transformers")


def install(adapter: Adapter) -> None:
    """Register an adapter for its architecture, in place of whatever vLLM has for it."""
    manifest = adapter.manifest
    # vLLM caches classes by the name of their module: two folders must never share one.
    place = hashlib.sha256(str(adapter.folder).encode()).hexdigest()[:8]
    package = f"{PACKAGE}.{manifest.architecture}_{place}"
    _add_package(PACKAGE, [])
    _add_package(package, [adapter.folder])
    ModelRegistry.models[manifest.architecture] = Registered(f"{package}.{manifest.module}", manifest.class_name)
    logger.info("%s is served by the adapter in %s.", manifest.architecture, adapter.folder)
    made_for = manifest.versions.get("vllm", vllm.__version__)
    if made_for.split(".")[:2] != vllm.__version__.split(".")[:2]:
        logger.warning(
            "The adapter in %s was made for vLLM %s; this is %s.", adapter.folder, made_for, vllm.__version__
        )


def _add_package(name: str, folders: list[Path]) -> None:
    """A package without code of its own, whose modules are the files of ``folders``."""
    spec = ModuleSpec(name, loader=None, is_package=True)
    spec.submodule_search_locations = [str(folder) for folder in folders]
    sys.modules.setdefault(name, module_from_spec(spec))
