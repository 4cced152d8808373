"""What the choice of an implementation has to know of a device: its kind, and what makes a probe of it stale."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from kunport_activation import requested_device

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


def device_kind(device: torch.device) -> str:
    """cpu, cuda or kunlun: what was asked for or found (Kunlun's torch calls its devices cuda), else torch's word."""
    return requested_device() or device.type


def fingerprint(device: torch.device) -> dict[str, str]:
    """Device, driver and versions that kernels were tried with."""
    known = {
        "kind": device_kind(device),
        "torch": torch.__version__,
        "triton": _version("triton"),
        "interpreted": os.environ.get("TRITON_INTERPRET", "0"),
    }
    if device.type != "cuda":
        return known | {"device": platform.machine()}
    properties = torch.cuda.get_device_properties(device)
    return known | {
        "device": f"{properties.name} {properties.major}.{properties.minor}",
        "driver": _driver(),
        "toolkit": str(torch.version.cuda),
    }


def capturing(device: torch.device) -> bool:
    """Whether a graph is being captured, so that nothing may be tried now."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _driver() -> str:
    """The driver's version; torch does not say it. Where Kunlun's stands is not known to us: "" there."""
    try:
        return _NVIDIA_DRIVER.read_text().partition("\n")[0]
    except OSError:
        return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
