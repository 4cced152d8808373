"""The devices by name."""

from __future__ import annotations

from kunport_activation import NAMES, VARIABLE, requested_device

from kunport_runtime import simulator
from kunport_runtime.devices.device import Device
from kunport_runtime.errors import KunportRuntimeError


def get_device(name: str) -> Device:
    """The device of a name.

    Raises:
        KunportRuntimeError: there is no such device.
    """
    if name == "cpu":
        from kunport_runtime.devices.cpu import CpuDevice

        return CpuDevice()
    if name == "cuda":
        from kunport_runtime.devices.cuda import CudaDevice

        return CudaDevice()
    if name == "kunlun" and simulator.requested():
        from kunport_runtime.devices.simulated import SimulatedKunlunDevice

        return SimulatedKunlunDevice()
    if name == "kunlun":
        from kunport_runtime.devices.kunlun import KunlunDevice

        return KunlunDevice()
    raise KunportRuntimeError(f"There is no device {name!r}.", f"Set {VARIABLE} to one of {', '.join(NAMES)}.")


def current_device() -> Device:
    """The device that this process runs on.

    Raises:
        KunportRuntimeError: none was asked for and no Kunlun was found, or there is no such device.
    """
    name = requested_device()
    if name is None:
        raise KunportRuntimeError("No device was chosen and no Kunlun was found.", f"Set {VARIABLE}.")
    return get_device(name)
