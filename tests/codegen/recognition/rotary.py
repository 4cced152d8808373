"""Rotary tables and rotations, in the spellings that models use."""

from __future__ import annotations

import math
from typing import Any

from graph_builder import FLOAT32, MODEL, SEQUENCE, GraphBuilder, Tensor
from kunport_codegen.expression import Scalar, field

THETA = 100.0


def configuration(rope_type: str, pairs: int = 4, **more: Any) -> dict[str, Any]:
    """A configuration with one description of a table and every parameter that some rope type reads."""
    described = {"rope_type": rope_type, "rope_theta": THETA, "factor": 4.0, "original_max_position_embeddings": 16}
    described |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "beta_fast": 32, "beta_slow": 1}
    if rope_type == "longrope":
        described["short_factor"] = [1.0, 1.5, 2.0, 3.0][:pairs]
    if rope_type == "proportional":
        described["partial_rotary_factor"] = 0.5
    return {"rope_parameters": described, "max_position_embeddings": 64, **more}


def theta() -> Scalar:
    return field("rope_parameters['rope_theta']", THETA)


def inverse_frequencies(build: GraphBuilder, dim: Any, base: Any = None) -> Tensor:
    """``1 / theta ** (arange(0, dim, 2) / dim)``."""
    return 1.0 / (theta() if base is None else base) ** (build.arange(0, dim, 2, dtype=FLOAT32) / dim)


def llama3(build: GraphBuilder, dim: int) -> Tensor:
    """Frequencies stretched where a wavelength exceeds the original context, blended in between."""
    described = build.result.config["rope_parameters"]
    factor, low, high = described["factor"], described["low_freq_factor"], described["high_freq_factor"]
    context = described["original_max_position_embeddings"]
    plain = inverse_frequencies(build, dim)
    wavelength = 2 * math.pi / plain
    stretched = wavelength.gt(context / low).where(plain / factor, plain)
    share = (context / wavelength - low) / (high - low)
    blended = (1 - share) * (stretched / factor) + share * stretched
    between = wavelength.lt(context / high).bitwise_not() * wavelength.gt(context / low).bitwise_not()
    return between.where(blended, stretched)


def yarn(build: GraphBuilder, dim: int) -> Tensor:
    described = build.result.config["rope_parameters"]
    context = described["original_max_position_embeddings"]

    def dimension(rotations: float) -> float:
        return dim * math.log(context / (rotations * 2 * math.pi)) / (2 * math.log(THETA))

    low = max(math.floor(dimension(described["beta_fast"])), 0)
    high = min(math.ceil(dimension(described["beta_slow"])), dim - 1)
    kept = 1 - ((build.arange(dim // 2, dtype=FLOAT32) - low) / (high - low or 0.001)).clamp(0, 1)
    plain = inverse_frequencies(build, dim)
    return plain / described["factor"] * (1 - kept) + plain * kept


def linear(build: GraphBuilder, dim: int) -> Tensor:
    return inverse_frequencies(build, dim) / build.result.config["rope_parameters"]["factor"]


def longrope(build: GraphBuilder, dim: int) -> Tensor:
    factors = build.apply("tensor", build.result.config["rope_parameters"]["short_factor"], dtype=FLOAT32)[: dim // 2]
    return 1.0 / (factors * theta() ** (build.arange(0, dim, 2, dtype=FLOAT32) / dim))


def proportional(build: GraphBuilder, dim: int) -> Tensor:
    """Half of the pairs turn, more slowly, and the others stand still."""
    turning = 1.0 / theta() ** (build.arange(0, 2 * (dim // 4), 2, dtype=FLOAT32) / dim)
    return build.cat(turning, build.apply("zeros", dim // 2 - dim // 4, dtype=FLOAT32)) / 4.0


FREQUENCIES = {
    "default": inverse_frequencies,
    "dynamic": inverse_frequencies,
    "linear": linear,
    "llama3": llama3,
    "yarn": yarn,
    "longrope": longrope,
    "proportional": proportional,
}
LAYOUTS = {
    "half": lambda build, angles: build.cat(angles, angles),
    "interleaved": lambda build, angles: angles.repeat_interleave(2, dim=-1),
    "once": lambda build, angles: angles,
}


def tables(
    build: GraphBuilder, frequencies: Tensor, layout: str = "half", scaling: Any = 1.0, dtype: Any = MODEL
) -> tuple[Tensor, Tensor]:
    """Cosine and sine, ``[1, sequence, dim]``, or ``[1, sequence, dim / 2]`` where each angle stands once."""
    positions = build.arange(SEQUENCE).unsqueeze(0)
    angles = LAYOUTS[layout](build, positions[..., None].to(FLOAT32) * frequencies)
    return (angles.cos() * scaling).to(dtype), (angles.sin() * scaling).to(dtype)


def rotate_half(build: GraphBuilder, x: Tensor) -> Tensor:
    half = x.kind.shape[-1] // 2
    return build.cat(-x[..., half:], x[..., :half])


def rotate_pairs(build: GraphBuilder, x: Tensor) -> Tensor:
    return build.stack(-x[..., 1::2], x[..., 0::2]).flatten(-2)


def products(build: GraphBuilder, x: Tensor, cos: Tensor, sin: Tensor, style: str) -> Tensor:
    """``x * cos + rotated(x) * sin`` with tables that fit the style."""
    rotated = (rotate_half if style == "half" else rotate_pairs)(build, x)
    return x * cos + rotated * sin


def halves(build: GraphBuilder, x: Tensor, cos: Tensor, sin: Tensor, style: str) -> Tensor:
    """Each half of the pairs by itself, with tables that hold each angle once."""
    if style == "half":
        several = x.chunk(2, dim=-1)
        first, second = several.item(0), several.item(1)
    else:
        first, second = x[..., 0::2], x[..., 1::2]
    turned = first * cos - second * sin, second * cos + first * sin
    return build.cat(*turned) if style == "half" else build.stack(*turned).flatten(-2)
