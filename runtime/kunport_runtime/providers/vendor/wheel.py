"""Finds the vendor's wheel, says in a sentence what is wrong with it, and gives its operators out by name."""

from __future__ import annotations

import importlib
import inspect
import logging
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from kunport_runtime import simulator
from kunport_runtime.errors import KunportRuntimeError
from kunport_runtime.providers.vendor.generation import Generation, Symbol, known_generations

_log = logging.getLogger(__name__)
_OTHER_MACHINE = re.compile(r"wrong ELF class|invalid ELF header|Exec format error|cannot execute", re.IGNORECASE)
_UNDEFINED = re.compile(r"undefined symbol:? *(\S+)")
_TAG = re.compile(r"^Tag: *([^-\s]+)-[^-\s]+-(\S+)$", re.MULTILINE)


class VendorWheelError(KunportRuntimeError, ImportError):
    """The vendor's wheel is not there or does not fit. Says which, and what to install."""


class Wheel:
    """An installed wheel.

    Args:
        generation: its table.
        simulated: whether it is kunport's simulator.

    Attributes:
        missing: operators of the table that it does not have.
    """

    def __init__(self, generation: Generation, simulated: bool = False) -> None:
        self.generation = generation
        self.simulated = simulated
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, symbol in generation.operators.items():
            if (function := _resolve(symbol)) is not None:
                self._functions[name] = function
        self.missing = tuple(sorted(set(generation.operators) - set(self._functions)))
        self._keywords: dict[str, frozenset[str] | None] = {}

    def has(self, *names: str) -> bool:
        """Whether all of these operators are there."""
        return all(name in self._functions for name in names)

    def operator(self, name: str) -> Callable[..., Any]:
        """An operator, which takes the keywords of the newest generation."""
        return self._functions[name]

    def takes(self, name: str, keyword: str) -> bool:
        """Whether an operator is there and has an argument: wheels of one generation differ in that.

        What does not tell its arguments (a compiled function) is taken at its table's word.
        """
        if not self.has(name):
            return False
        if name not in self._keywords:
            self._keywords[name] = _keywords(self._functions[name])
        known = self._keywords[name]
        return known is None or keyword in known

    @property
    def version(self) -> str:
        """Of the distribution; "" where it tells none."""
        return "" if self.simulated else _version(self.generation.distribution)

    @property
    def identity(self) -> str:
        """What another of would have to be tried anew: the version, or the simulator's sources."""
        if not self.simulated:
            return str(self)
        files = sorted(Path(simulator.__file__).parent.glob("*.py"))
        return f"simulator {sha256(b''.join(file.read_bytes() for file in files)).hexdigest()[:16]}"

    def faults(self) -> list[str]:
        """What a user should know of this wheel, a sentence with its cure each."""
        name = f"{self.generation.module} {self.version}".strip()
        newest = known_generations()[0]
        faults = []
        if self.missing:
            faults.append(
                f"The vendor's wheel {name} has no {', '.join(self.missing)}. "
                f"Install a newer {self.generation.distribution}; until then other providers run what needs these."
            )
        if self.generation.order < newest.order:
            without = sorted(set(newest.operators) - set(self.generation.operators))
            faults.append(
                f"The vendor's wheel {name} is of an earlier generation, without {', '.join(without)}. "
                f"Install {newest.distribution}."
            )
        return faults

    def __str__(self) -> str:
        what = f"{self.generation.module} {self.version}".strip()
        return f"the simulator of {what} on the CPU, no Kunlun" if self.simulated else what


@cache
def installed_wheel() -> Wheel:
    """The wheel of this process, found once; what is wrong with it goes to the log.

    Raises:
        VendorWheelError: there is none that can be used.
    """
    wheel = find_wheel(known_generations())
    for fault in wheel.faults():
        _log.warning("%s", fault)
    return wheel


def report_wheel() -> None:
    """Say in the log, at start, which wheel runs, or why none does: a server goes on with other providers."""
    try:
        _log.info("The vendor's operators are those of %s.", installed_wheel())
    except VendorWheelError as error:
        _log.error("%s Until then other providers run everything.", error)


def find_wheel(generations: Iterable[Generation]) -> Wheel:
    """The newest of the generations that is installed, or the simulator where that was asked for.

    Raises:
        VendorWheelError: none is installed, or one is and does not fit this process.
    """
    simulated = simulator.requested()
    if simulated:
        from kunport_runtime.simulator.install import install

        return Wheel(install(simulated, tuple(generations)), simulated=True)
    names = []
    for generation in generations:
        names.append(generation.distribution)
        if _can_be_imported(generation):
            return Wheel(generation)
    raise VendorWheelError(
        f"The vendor's operators are not installed ({' or '.join(names)}).",
        f"Install {names[0]}, or set {simulator.VARIABLE}=1 to simulate them on the CPU.",
    )


def _can_be_imported(generation: Generation) -> bool:
    """Import a generation; False where it is not installed.

    Raises:
        VendorWheelError: it is, and does not fit.
    """
    _hold_tags(generation)
    for module in (*generation.before, generation.module):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise _explained(generation, error) from error
            if module == generation.module:
                return False
        except ImportError as error:
            raise _explained(generation, error) from error
    return True


def _hold_tags(generation: Generation) -> None:
    """Hold what the wheel says it was built for against this process."""
    try:
        text = metadata.distribution(generation.distribution).read_text("WHEEL") or ""
    except metadata.PackageNotFoundError:
        return
    here = f"cp{sys.version_info.major}{sys.version_info.minor}", platform.machine()
    tags = _TAG.findall(text)
    fits = [
        (python == here[0] or not python.startswith("cp")) and (system == "any" or system.endswith(here[1]))
        for python, system in tags
    ]
    if tags and not any(fits):
        built = " or ".join(f"{python} on {system}" for python, system in tags)
        raise VendorWheelError(
            f"The vendor's wheel {generation.distribution} was built for {built}, and this process is {here[0]} on "
            f"{here[1]}.",
            f"Install the {generation.distribution} of this Python and machine.",
        )


def _explained(generation: Generation, error: ImportError) -> VendorWheelError:
    """An import that failed, in words: linkers speak of symbols, users of versions."""
    text = str(error)
    name = f"{generation.distribution} {_version(generation.distribution)}".strip()
    if symbol := _UNDEFINED.search(text):
        return VendorWheelError(
            f"The vendor's wheel {name} was built with another torch than {torch.__version__} (undefined symbol "
            f"{symbol.group(1)}).",
            f"Install the {generation.distribution} of torch {torch.__version__.split('+')[0]}.",
        )
    if _OTHER_MACHINE.search(text):
        return VendorWheelError(
            f"The vendor's wheel {name} was built for another machine than {platform.machine()} ({text}).",
            f"Install the {generation.distribution} of {platform.machine()}.",
        )
    return VendorWheelError(
        f"The vendor's wheel {name} cannot be imported ({text}).", f"Install {generation.distribution} again, whole."
    )


def _resolve(symbol: Symbol) -> Callable[..., Any] | None:
    """What lies at a path, with the generation's keywords; None where nothing does."""
    root, *names = symbol.path.split(".")
    found: Any = sys.modules.get(root)
    for name in names:
        found = getattr(found, name, None)
    if found is None:
        return None
    return partial(_renamed, found, symbol.keywords) if symbol.keywords else found


def _renamed(function: Callable[..., Any], keywords: Mapping[str, str], *arguments: Any, **options: Any) -> Any:
    return function(*arguments, **{keywords.get(name, name): value for name, value in options.items()})


def _keywords(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names of a function's arguments; None where it does not tell."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""
