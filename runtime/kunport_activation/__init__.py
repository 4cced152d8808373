"""Which device this process runs kunport on, if any, and so whether vLLM does: the entry point of
``vllm.platform_plugins``.

vLLM asks in every process that it starts, wherever kunport is installed. The answer costs a look at the environment:
this package stands beside the runtime, so that nothing of that, and no torch, is imported before it is yes.

No device is chosen by accident: the environment names one, or Kunlun hardware is found together with the vendor's
torch.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

PLATFORM = "kunport_runtime.engine.platforms.selected.SelectedPlatform"
VARIABLE = "KUNPORT_DEVICE"
NAMES = ("cpu", "cuda", "kunlun")
# What the driver creates and what containers are given (the vendor's instructions for starting one); not seen on a
# P800 by us.
_KUNLUN_CONTROL = Path("/dev/xpuctrl")
_VENDOR_TORCH = "torch_xmlir"


def platform() -> str | None:
    """The path of the platform's class, None to leave vLLM as it is.

    A device that does not exist is no reason for None: vLLM would go on without a word. Importing the class names it.
    """
    return PLATFORM if requested_device() is not None else None


def requested_device() -> str | None:
    """The device's name, None for none. A name that the environment gives is returned as it is, known or not."""
    named = os.environ.get(VARIABLE, "").strip().lower()
    if named:
        return named
    return "kunlun" if kunlun_is_present() else None


def kunlun_is_present() -> bool:
    """Whether this machine has a Kunlun driver and the vendor's torch: looked for, not imported."""
    return _KUNLUN_CONTROL.exists() and find_spec(_VENDOR_TORCH) is not None
