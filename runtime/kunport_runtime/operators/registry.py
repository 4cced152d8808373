"""Finds contracts and implementations: a contract is a file in a folder of this package, a provider a folder beside it.

Operators of one's own come from files that ``KUNPORT_OPERATORS`` names (separated by ``os.pathsep``), in every
process, or from `register`.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from kunport_runtime import operators, providers
from kunport_runtime.operators.contract import Contract
from kunport_runtime.operators.errors import OperatorError, UnsupportedOperatorError
from kunport_runtime.operators.implementation import REFERENCE, Implementation

VARIABLE = "KUNPORT_OPERATORS"
OWN = "own"


class Registry:
    """All operators of a process. `registry` is the one that everything uses."""

    def __init__(self) -> None:
        self._modules = {
            module.name: f"{family.name}.{module.name}"
            for family in pkgutil.iter_modules(operators.__path__)
            if family.ispkg
            for module in pkgutil.iter_modules([str(Path(operators.__path__[0]) / family.name)])
        }
        self._contracts: dict[str, Contract] = {}
        self._implementations: dict[str, dict[str, Implementation]] = {}
        self._absent: dict[str, str] = {}
        self._loaded = False

    def contract(self, name: str) -> Contract:
        """The contract of an operator.

        Raises:
            UnsupportedOperatorError: there is no such operator.
        """
        if name not in self._contracts and name in self._modules:
            family, _, _ = self._modules[name].partition(".")
            module = importlib.import_module(f"{operators.__name__}.{self._modules[name]}")
            if hasattr(module, "CONTRACT"):
                self._contracts[name] = dataclasses.replace(module.CONTRACT, doc=_doc(module), family=family)
        if name not in self._contracts:
            self._load()
        if name not in self._contracts:
            raise UnsupportedOperatorError(
                f"There is no operator {name}.",
                f"`kunport ops` lists those there are; {VARIABLE} names files with more.",
            )
        return self._contracts[name]

    def contracts(self) -> list[Contract]:
        """All contracts, by family and name; one's own come last."""
        self._load()
        for name, path in self._modules.items():
            if hasattr(importlib.import_module(f"{operators.__name__}.{path}"), "CONTRACT"):
                self.contract(name)
        return sorted(self._contracts.values(), key=lambda each: (each.family == OWN, each.family, each.name))

    def providers(self) -> list[str]:
        """The names of all providers, the reference last."""
        self._load()
        names = {name for found in self._implementations.values() for name in found} | set(self._absent)
        return [*sorted(names), REFERENCE]

    def absence(self, provider: str) -> str:
        """Why a provider has nothing to offer in this process; "" where it has."""
        self._load()
        return self._absent.get(provider, "")

    def implementations(self, name: str) -> dict[str, Implementation]:
        """Provider -> its implementation of an operator. The reference is always among them."""
        contract = self.contract(name)
        self._load()
        reference = Implementation(name, REFERENCE, contract.reference)
        return {**self._implementations.get(name, {}), REFERENCE: reference}

    def register(self, *what: Contract | Implementation) -> None:
        """Add operators or implementations of one's own; what has the same name is replaced.

        Raises:
            OperatorError: an implementation claims to be the reference, which is the contract's.
        """
        for each in what:
            if isinstance(each, Contract):
                self._contracts[each.name] = each
            elif each.provider == REFERENCE:
                raise OperatorError(
                    f"The provider {REFERENCE} is the contracts' references.", "Give the implementation another one."
                )
            else:
                self._implementations.setdefault(each.operator, {})[each.provider] = each

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        for folder in pkgutil.iter_modules(providers.__path__):
            self._load_provider(folder.name)
        for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
            load_operators(Path(path), self)

    def _load_provider(self, name: str) -> None:
        """Register what ``providers/NAME/implementations.py`` lists; it says itself why it lists nothing here."""
        module = f"{providers.__name__}.{name}.implementations"
        try:
            listed: Iterable[Implementation] = importlib.import_module(module).IMPLEMENTATIONS
        except Exception as error:  # of a library that is not there or does not fit
            self._absent[name] = f"{type(error).__name__}: {error}"
            return
        self.register(*listed)


def load_operators(path: Path, into: Registry) -> ModuleType:
    """Import a file with operators of one's own, and register its ``CONTRACT`` and its ``IMPLEMENTATIONS``.

    Raises:
        OperatorError: there is no such file, or it has neither.
    """
    if not path.is_file():
        raise OperatorError(f"{path} is no file.", f"Correct {VARIABLE}, or the name on the command line.")
    name = f"kunport_own_{path.stem}_{sha256(str(path.absolute()).encode()).hexdigest()[:8]}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise OperatorError(f"{path} is no Python file.", "Give it a name that ends in .py.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # before it runs, as an import would: Triton looks a kernel's module up
    specification.loader.exec_module(module)
    found: list[Contract | Implementation] = []
    if hasattr(module, "CONTRACT"):
        found.append(dataclasses.replace(module.CONTRACT, doc=_doc(module), family=OWN))
    found.extend(getattr(module, "IMPLEMENTATIONS", ()))
    if not found:
        raise OperatorError(f"{path} has neither a CONTRACT nor IMPLEMENTATIONS.", "See docs/own-operator.md.")
    into.register(*found)
    return module


def _doc(module: ModuleType) -> str:
    return (module.__doc__ or "").strip()


registry = Registry()
