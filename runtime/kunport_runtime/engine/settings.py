"""Settings of the runtime inside vLLM: from its command line or from the environment, and so in every process."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from kunport_runtime.memory.budget import parse_size

REFERENCE_ONLY = "KUNPORT_DISABLE_CUSTOM_OPS"
MEMORY_BUDGET = "KUNPORT_MEMORY_BUDGET"
_FLAG = "--disable-custom-ops"


class _SetVariable(argparse.Action):
    """Writes a flag into the environment, which the processes that vLLM starts inherit."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        os.environ[REFERENCE_ONLY] = "1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add kunport's flags to vLLM's command line."""
    if _FLAG not in parser._option_string_actions:
        parser.add_argument(
            _FLAG,
            action=_SetVariable,
            default=argparse.SUPPRESS,
            help=f"Run every operator of kunport by its torch reference. The same as {REFERENCE_ONLY}=1.",
        )


def reference_only() -> bool:
    """Whether every operator is to run by its reference."""
    return os.environ.get(REFERENCE_ONLY, "").strip().lower() in ("1", "true", "yes", "on")


def memory_budget() -> int | None:
    """Bytes that each worker may reserve, None where the environment does not say.

    Raises:
        KunportRuntimeError: what it says is no size.
    """
    text = os.environ.get(MEMORY_BUDGET, "").strip()
    return parse_size(text) if text else None
