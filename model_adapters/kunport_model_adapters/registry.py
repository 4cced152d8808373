"""Gives adapters to vLLM: those that ``KUNPORT_ADAPTER_PATH`` names, and those that kunport ships.

`register` is an entry point of ``vllm.general_plugins``: vLLM calls it in every process that it
starts (server, engine core, workers, and the one that inspects model classes), so that an adapter
is known wherever its model is. An adapter takes the place of vLLM's own class for its architecture.
"""

from __future__ import annotations

import os

from kunport_activation import requested_device

VARIABLE = "KUNPORT_ADAPTER_PATH"
SHIPPED_VARIABLE = "KUNPORT_SHIPPED_ADAPTERS"
# Which of the shipped adapters serve: those for which vLLM has no class of its own, all of them, or none.
SHIPPED_CHOICES = ("new", "all", "none")


def register() -> None:
    """Register the adapters that are wanted; where none are, do nothing and import nothing.

    Raises:
        AdapterError: a variable names no adapter, one that is broken, or two for one architecture, or makes no choice.
    """
    path, shipped = os.environ.get(VARIABLE, ""), shipped_choice()
    if path or shipped != "none":
        from kunport_model_adapters.installation import install_all

        install_all(path, shipped)


def shipped_choice() -> str:
    """What ``KUNPORT_SHIPPED_ADAPTERS`` says. Without it: "new" on kunport's platform, and "none" on vLLM's own.

    Raises:
        AdapterError: it says something else.
    """
    choice = os.environ.get(SHIPPED_VARIABLE, "").strip() or ("new" if requested_device() else "none")
    if choice not in SHIPPED_CHOICES:
        from kunport_model_adapters.errors import AdapterError

        raise AdapterError(f"{SHIPPED_VARIABLE} is {choice!r}.", f"Say one of {', '.join(SHIPPED_CHOICES)}.")
    return choice
