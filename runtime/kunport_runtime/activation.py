"""Says whether vLLM runs on kunport: the entry point of ``vllm.platform_plugins``.

vLLM asks in every process that it starts, wherever kunport is installed. The answer costs a look at the environment:
neither torch nor anything else of the runtime is imported before it is yes.
"""

from __future__ import annotations

PLATFORM = "kunport_runtime.engine.platforms.selected.SelectedPlatform"


def platform() -> str | None:
    """The path of the platform's class, None to leave vLLM as it is.

    A device that does not exist is no reason for None: vLLM would go on without a word. Importing the class names it.
    """
    from kunport_runtime.devices.selection import requested_device

    return PLATFORM if requested_device() is not None else None
