"""Adapters to plant in: generated for tiny checkpoints, or a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kunport.validation.selftest.run import Subject


def generated(families: Sequence[str], folder: Path, *, seed: int = 0) -> list[Subject]:
    """A tiny checkpoint and a new adapter of each family, in ``folder``; ``seed`` is of the weights."""
    import kunport

    subjects = []
    for family in families:
        place = folder / family.replace(":", "-")
        checkpoint = kunport.tiny(family, place / "checkpoint", seed=seed)
        adapter = kunport.generate_adapter(kunport.analyze(str(checkpoint)), place / "adapter")
        subjects.append(Subject(family, adapter, checkpoint))
    return subjects
