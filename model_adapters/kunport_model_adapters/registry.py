"""Gives the adapters that ``KUNPORT_ADAPTER_PATH`` names to vLLM.

`register` is an entry point of ``vllm.general_plugins``: vLLM calls it in every process that it
starts (server, engine core, workers, and the one that inspects model classes), so that an adapter
is known wherever its model is. An adapter takes the place of vLLM's own class for its architecture.
"""

from __future__ import annotations

import os

VARIABLE = "KUNPORT_ADAPTER_PATH"


def register() -> None:
    """Register every adapter found; without the variable, do nothing and import nothing.

    Raises:
        AdapterError: the variable names no adapter, one that is broken, or two for one architecture.
    """
    path = os.environ.get(VARIABLE)
    if path:
        from kunport_model_adapters.installation import install_all

        install_all(path)
