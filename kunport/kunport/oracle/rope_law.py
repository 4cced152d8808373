"""The law of a rotation's angles: base and scaling."""

from __future__ import annotations

from dataclasses import dataclass

from kunport.oracle.attention.rotation import Rotation
from kunport.oracle.config_fields import ConfigFields


@dataclass(frozen=True, slots=True)
class RopeLaw:
    """The base, None where the angles do not give it, and the scaling's names that are right, the usual one first."""

    base: float | None
    scaling: list[str]


def find_law(rotation: Rotation, head_dim: int, fields: ConfigFields) -> RopeLaw:
    """Base and scaling from the angles at position 1, ``base ** (-2 i / dims)`` by default.

    Where the angles are scaled, their law is named by the configuration if it names one, and the base is one that
    the two fastest angles and the configuration agree on.
    """
    angles = rotation.angles
    if len(angles) < 3:
        return RopeLaw(None, [])
    ratio = angles[1] / angles[0]
    geometric = all(abs(angle / (angles[0] * ratio**i) - 1) < 1e-3 for i, angle in enumerate(angles))
    named = [kind for kind in fields.rope_types if kind != "default"]
    # The exponent's denominator is the number of elements that turn, of a head, or an odd share rounded up to pairs.
    bases = [ratio ** (-dims / 2) for dims in (rotation.dims, head_dim, rotation.dims - 1)]
    agreed = next((b for b in bases if any(abs(b / n - 1) < 1e-3 for n in fields.numbers if n > 1)), None)
    if geometric and abs(angles[0] - 1) < 1e-4:
        return RopeLaw(agreed or (None if named else bases[0]), [*named, "default"] if len(named) < 2 else [])
    if len(named) == 1:
        return RopeLaw(agreed, named)
    return RopeLaw(agreed if geometric else None, ["linear"] if geometric and not named else [])
