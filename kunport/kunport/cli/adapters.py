"""``kunport adapters``: which adapters vLLM would get now, from where, and what they stand in for."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kunport.cli.arguments import Verbs
from kunport.cli.terminal import say
from kunport.errors import KunportError

if TYPE_CHECKING:
    from kunport_model_adapters.discovery import Adapter


@dataclass(frozen=True, slots=True)
class Row:
    """One adapter.

    Attributes:
        architecture: what it serves.
        model_type: the configuration's.
        origin: "shipped", or its folder.
        shadows: whether vLLM has a class of its own for the architecture; None where that is not known.
        registered: whether vLLM gets it in this environment.
        reason: why not; "" where it does.
    """

    architecture: str
    model_type: str
    origin: str
    shadows: bool | None
    registered: bool
    reason: str


def add_to(verbs: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to the command's parser."""
    parser = verbs.add_parser(
        "adapters",
        parents=[common],
        help="list the adapters that vLLM gets",
        description="Lists the adapters that KUNPORT_ADAPTER_PATH names and those that kunport ships, which of them "
        "vLLM gets in this environment, and which take the place of a class of vLLM's own.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List them; a variable that is wrong is an error."""
    from kunport_model_adapters.errors import AdapterError

    try:
        rows = list(_rows())
    except AdapterError as error:
        raise KunportError(error.problem, error.cure) from None
    if options.format == "json":
        say(json.dumps({"adapters": [asdict(row) for row in rows]}, indent=2))
        return 0
    wide = max(len(row.architecture) for row in rows)
    for row in rows:
        state = "registered" if row.registered else f"off: {row.reason}"
        shadow = ", in place of vLLM's class" if row.registered and row.shadows else ""
        say(f"{row.architecture:{wide}}  {row.origin}: {state}{shadow}")
    return 0


def _rows() -> Iterator[Row]:
    """The adapters of the search path, then the shipped ones."""
    from kunport_model_adapters.discovery import find_adapters, shipped_choices
    from kunport_model_adapters.registry import VARIABLE, shipped_choice

    from kunport.native_architectures import native_architectures

    native = native_architectures()
    named = find_adapters(os.environ.get(VARIABLE, ""))
    for adapter in named:
        yield _row(adapter, str(adapter.folder), native, "")
    architectures = {adapter.manifest.architecture for adapter in named}
    for adapter, reason in shipped_choices(architectures, shipped_choice(), (native or frozenset()).__contains__):
        yield _row(adapter, "shipped", native, reason)


def _row(adapter: Adapter, origin: str, native: frozenset[str] | None, reason: str) -> Row:
    architecture = adapter.manifest.architecture
    shadows = None if native is None else architecture in native
    return Row(architecture, adapter.manifest.model_type, origin, shadows, not reason, reason)
