"""The configuration fields that make a model tiny.

A field is shrunk to its entry in ``sizes.json`` where its default is larger. ``overrides.json`` holds, per model type,
what shrinking alone gets wrong (sizes that must agree with each other, patterns that must keep every kind of layer).
At engine sizes every width is doubled, which gives heads of 32 elements, and models with latent attention get the
one size the CPU has a kernel for (``engine.json``): vLLM's CPU attention supports few head sizes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from kunport.tiny_models.cases import Case, read_table

LAYERS = 4
VOCABULARY = 256
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_TOKEN_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "sep_token_id")
_TOKEN = 3  # stands for every special token that the tiny vocabulary has no room for, except padding
_HEADS = (("num_attention_heads", "num_key_value_heads"), ("n_head", "num_kv_heads"))


def tiny_fields(config_class: Any, overrides: dict[str, Any], *, width: int = 1) -> dict[str, Any]:
    """The constructor arguments that make ``config_class`` tiny, its widths multiplied by ``width``."""
    defaults = _defaults(config_class)
    fields = _shrunk(defaults, width)
    for heads, kv_heads in _HEADS:
        if isinstance(defaults.get(heads), int) and isinstance(defaults.get(kv_heads), int):
            if kv_heads in fields and defaults[heads] == defaults[kv_heads]:  # multi-head stays multi-head
                fields[kv_heads] = fields.get(heads, defaults[heads])
            if defaults[kv_heads] == 1:
                fields[kv_heads] = 1
    for name, sub_class in config_class.sub_configs.items():
        if isinstance(defaults.get(name), sub_class):
            fields[name] = tiny_fields(sub_class, {}, width=width) | {"model_type": sub_class.model_type}
    fields.update(_widen(read_table("overrides").get(config_class.model_type, {}), width))
    fields.update(_widen(overrides, width))
    return fields


def engine_fields(config_class: Any, case: Case) -> dict[str, Any]:
    """The constructor arguments that make the case small, at sizes that the engine's kernels take."""
    fields = tiny_fields(config_class, case.overrides, width=2)
    engine = read_table("engine")
    defaults = vars(config_class())
    if isinstance(defaults.get("kv_lora_rank"), int):
        for name, size in engine["mla"].items():
            declared = isinstance(defaults.get(name), int) and (name != "qk_head_dim" or name in fields)
            if declared and case.overrides.get(name, size) is not None:
                fields[name] = size
    fields.update(engine["fields"].get(case.model_type, {}))
    return fields


def _defaults(config_class: Any) -> dict[str, Any]:
    """The default value of every argument that the constructor takes under its own name."""
    values = vars(config_class())
    if dataclasses.is_dataclass(config_class):  # what __post_init__ derives must not be passed back
        values = {field.name: values.get(field.name) for field in dataclasses.fields(config_class)}
    return {name: value for name, value in values.items() if not name.startswith("_")}


def _shrunk(defaults: dict[str, Any], width: int) -> dict[str, Any]:
    sizes = read_table("sizes")
    targets = sizes["counts"] | {name: size * width for name, size in sizes["widths"].items()}
    depth = next((defaults[name] for name in _LAYER_COUNTS if isinstance(defaults.get(name), int)), 0)
    fields: dict[str, Any] = {}
    for name, value in defaults.items():
        if isinstance(value, bool):
            continue
        if isinstance(value, int) and value > targets.get(name, value):
            fields[name] = targets[name]
        elif isinstance(value, int) and name in _TOKEN_IDS and value >= VOCABULARY:
            fields[name] = 0 if name == "pad_token_id" else _TOKEN
        elif isinstance(value, list) and name in _TOKEN_IDS:
            fields[name] = [token if token < VOCABULARY else _TOKEN for token in value]
        elif isinstance(value, list | tuple) and len(value) == depth > LAYERS:
            fields[name] = _shrink_pattern(list(value), LAYERS)
    return fields


def _shrink_pattern(values: list[Any], count: int) -> list[Any]:
    """``count`` entries of a pattern over layers, with every distinct kind still present where they fit."""
    kept = values[:count]
    missing = [kind for kind in dict.fromkeys(values) if kind not in kept]
    slot = count - 1
    for kind in missing:
        while slot >= 0 and kept.count(kept[slot]) == 1:
            slot -= 1
        if slot < 0:
            break
        kept[slot] = kind
    return kept


def _widen(value: Any, factor: int, name: str = "") -> Any:
    """``value`` with every width multiplied, through nested dictionaries."""
    sizes = read_table("sizes")
    if isinstance(value, dict):
        return {key: _widen(item, factor, key) for key, item in value.items()}
    if name not in sizes["widths"] and name not in sizes["override_widths"]:
        return value
    if isinstance(value, list):
        return [item * factor for item in value]
    return value * factor if isinstance(value, int) else value
