"""One benchmark: an operator on one shape, what takes part, and how each is judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from kunport_runtime.providers.triton.tuning import Config, forced

Launch = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that does the trial's work.

    Attributes:
        name: of a peer, or the configuration in words.
        launch: does it once.
        config: None where it is not one of our kernels.
        work: where it does other work than the trial's, such as a copy of its own size.
    """

    name: str
    launch: Launch
    config: Config | None = None
    work: int | None = None


@dataclass(slots=True)
class Trial:
    """An operator on one shape.

    Attributes:
        operator: of the tuning table.
        label: the shape, for people.
        dtype: of the table.
        shape: of the table.
        work: bytes that must move, or operations, a launch.
        unit: "bytes" or "operations": what `work` counts.
        ours: launches our kernel with the configuration that is forced.
        candidates: configurations to try.
        reset: restores inputs that a launch overwrites, and poisons what it writes.
        error: how far the results are from float64: |result - expected| / |expected|, NaN where not all was written.
        limit: the greatest error taken.
        peers: what to compare with; their launches take no part in tuning.
    """

    operator: str
    label: str
    dtype: torch.dtype
    shape: Mapping[str, int]
    work: int
    unit: str
    ours: Launch
    candidates: list[Config]
    reset: Launch
    error: Callable[[], float]
    limit: float = 1e-2
    peers: list[Contender] = field(default_factory=list)

    def contender(self, config: Config) -> Contender:
        """Our kernel with one configuration."""

        def launch() -> None:
            with forced(self.operator, config):
                self.ours()

        return Contender(" ".join(f"{name}={value}" for name, value in config.items()), launch, config)

    def rate(self, contender: Contender, milliseconds: float) -> float:
        """TB/s or TFLOP/s."""
        return (contender.work or self.work) / milliseconds / 1e9


def wanted(name: str, only: str) -> bool:
    """Whether one of the texts in `only`, which commas separate, is in a name."""
    return any(each in name for each in only.split(","))


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    """|result - expected| / |expected|, in float64; NaN where the result has one."""
    return float((result.double() - expected.double()).norm() / expected.double().norm())
