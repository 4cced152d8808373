"""Mutations of a configuration: absurd values and wrong types."""

from __future__ import annotations

import json
import random
from typing import Any

_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    7,
    2**31,
    10**30,
    -(10**30),
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x1b[31mred\u202e",
    "../../../etc/passwd",
    "x" * 10000,
    [],
    [0, -1, "x"],
    {},
    {"rope_type": "unheard", "factor": "8"},
    {"x": {"y": [{}]}},
    [["sliding_attention"] * 3],
    ["full_attention"] * 2,
    {"__float__": "Infinity"},
    {"__float__": "x"},
)
_FIELDS = (
    "rope_parameters",
    "rope_scaling",
    "layer_types",
    "sliding_window",
    "head_dim",
    "architectures",
    "auto_map",
    "model_type",
    "torch_dtype",
    "tie_word_embeddings",
    "num_key_value_heads",
    "text_config",
    "quantization_config",
)


def mutate(config: dict[str, Any], draw: random.Random) -> str:
    """The configuration as JSON text, with one to four fields changed; now and then no JSON object at all."""
    if draw.random() < 0.03:
        return draw.choice(
            ("", "[]", "null", "{" * 5000, '{"a":' * 5000, "{'a': 1}", '{"a": 1}{', "\x00", '"' + "x" * 10**6)
        )
    changed = dict(config)
    for _ in range(draw.randint(1, 4)):
        name = (
            draw.choice((*changed, *_FIELDS)) if draw.random() < 0.95 else draw.choice(("\x1b[2J", "", "x.y", "self"))
        )
        if draw.random() < 0.15:
            changed.pop(name, None)
        else:
            changed[name] = draw.choice(_VALUES)
    return json.dumps(changed)
