import numpy as np
import pytest
from judging import judge
from kunport_runtime.operators.positions.mrotary_embedding import axes_of_frequencies
from numpy_formulas import root_mean_square, written


def turned(heads, cos, sin, pairing):
    """Each pair as one complex number."""
    result = heads.copy()
    half = cos.shape[-1]
    for i in range(half):
        a, b = (i, i + half) if pairing == "half" else (2 * i, 2 * i + 1)
        pair = (heads[..., a] + 1j * heads[..., b]) * (cos[:, None, i] + 1j * sin[:, None, i])
        result[..., a], result[..., b] = pair.real, pair.imag
    return result


def rotary(query, key, positions, cos_sin_cache, pairing):
    half = cos_sin_cache.shape[1] // 2
    cos, sin = cos_sin_cache[positions, :half], cos_sin_cache[positions, half:]
    result = {"query": turned(query, cos, sin, pairing)}
    return result if key is None else result | {"key": turned(key, cos, sin, pairing)}


def test_rotary_embedding():
    judge("rotary_embedding", rotary)


def test_mrotary_embedding():
    def formula(query, key, positions, cos_sin_cache, sections, pairing, order):
        half = cos_sin_cache.shape[1] // 2
        cos, sin = np.empty((2, positions.shape[1], half))
        for i in range(half):
            if order == "blocks":
                axis = int(np.searchsorted(np.cumsum(sections), i, side="right"))
            else:
                axis = i % len(sections) if i // len(sections) < sections[i % len(sections)] else 0
            cos[:, i] = cos_sin_cache[positions[axis], i]
            sin[:, i] = cos_sin_cache[positions[axis], half + i]
        return {"query": turned(query, cos, sin, pairing), "key": turned(key, cos, sin, pairing)}

    judge("mrotary_embedding", formula)


@pytest.mark.parametrize(
    ("sections", "order", "axes"),
    [
        ((2, 1, 1), "blocks", [0, 0, 1, 2]),
        ((2, 1, 1), "interleaved", [0, 1, 2, 0]),
        ((4, 1, 1), "interleaved", [0, 1, 2, 0, 0, 0]),
    ],
)
def test_axes_of_frequencies(sections, order, axes):
    assert axes_of_frequencies(sections, order) == axes


def normed_and_turned(query, key, positions, cos_sin_cache, query_weight, key_weight, epsilon, offset, span, pairing):
    normed = []
    for heads, weight in ((query, query_weight), (key, key_weight)):
        rows = heads if span == "head" else heads.reshape(len(heads), -1)
        normed.append(root_mean_square(rows, weight, epsilon, offset).reshape(heads.shape))
    return rotary(*normed, positions, cos_sin_cache, pairing)


def test_qk_norm_rope():
    def formula(cast, **arguments):
        return normed_and_turned(**arguments)

    judge("qk_norm_rope", formula)


def test_qk_norm_rope_cache_write():
    def formula(key_cache, value_cache, value, slot_mapping, key_scale, value_scale, cast, **arguments):
        result = normed_and_turned(**arguments)
        return {
            **result,
            "key_cache": written(key_cache, result["key"], slot_mapping, key_scale),
            "value_cache": written(value_cache, value, slot_mapping, value_scale),
        }

    judge("qk_norm_rope_cache_write", formula, neighbours=0.15)  # of keys that were rounded to bfloat16 before
