"""What the runtime asks of hardware: memory, streams, graphs, communication, properties."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch


@dataclass(frozen=True, slots=True)
class Properties:
    """What a device is: its name, the number of its compute units, its memory in bytes, and what torch calls its
    capability (None where there is no such thing).
    """

    name: str
    compute_units: int
    memory: int
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of a device: all, unused by anybody, and held by torch in this process."""

    total: int
    free: int
    torch: int


class Device(ABC):
    """One kind of hardware. Without state: torch holds it."""

    name: ClassVar[str]
    """As in ``KUNPORT_DEVICE``."""
    torch_type: ClassVar[str]
    """What torch calls the device: ``torch.device(torch_type, index)``."""
    communication_backend: ClassVar[str]
    """Of ``torch.distributed``."""
    supports_graphs: ClassVar[bool]
    """Whether a sequence of kernels can be captured once and replayed."""
    visible_devices_variable: ClassVar[str]
    """The environment variable that lists the devices a process may use."""
    ray_resource: ClassVar[str]
    """What Ray counts these devices as; "" where Ray places no such device."""
    ray_keep_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that keep Ray from setting ``visible_devices_variable`` by itself."""

    @abstractmethod
    def properties(self, index: int = 0) -> Properties: ...

    @abstractmethod
    def memory(self, index: int = 0) -> MemoryUse: ...

    @abstractmethod
    def use(self, index: int) -> None:
        """Make a device the one that new tensors of ``torch_type`` are made on."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Seed the generators of all devices of this kind that this process sees."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything that was queued on the current device has run."""

    @abstractmethod
    def release_cached(self) -> None:
        """Give memory that torch keeps for later back to the device."""

    def tensor_device(self, index: int = 0) -> torch.device:
        return torch.device(self.torch_type, index)
