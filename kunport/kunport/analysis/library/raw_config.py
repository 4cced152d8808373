"""``config.json`` as it stands on disk, with the few fields that say which model it is checked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from kunport.analysis.file_size import check_file
from kunport.errors import KunportError

_SPECIAL_FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


def read_raw_config(folder: Path) -> dict[str, Any]:
    """The object in the folder's ``config.json``, ``{"__float__": "Infinity"}`` and its like decoded to floats.

    Raises:
        KunportError: the file is missing, unreadable, not JSON, or not an object.
    """
    path = folder / "config.json"
    if not os.path.isfile(path):
        raise KunportError(
            f"The folder {folder} has no config.json.", "Give the folder of a checkpoint that save_pretrained wrote."
        )
    cure = "Restore the file from where the checkpoint came from."
    check_file(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KunportError(f"{path} cannot be read ({error.strerror}).", "Check its permissions.") from error
    except RecursionError as error:
        raise KunportError(f"{path} nests too deeply to be a model's configuration.", cure) from error
    except ValueError as error:  # both not JSON and not UTF-8
        raise KunportError(f"{path} is not valid JSON ({error}).", cure) from error
    if not isinstance(raw, dict):
        raise KunportError(f"{path} is not a JSON object but {_kind(raw)}.", cure)
    if "configuration_files" in raw:
        raise KunportError(
            f"{path} only points at configurations for other versions of Transformers (configuration_files).",
            "Copy the one that fits over config.json.",
        )
    return {key: _decode_floats(value) for key, value in raw.items()}


def text_field(raw: dict[str, Any], name: str) -> str | None:
    """A field that must be a string; None where it is absent or null.

    Raises:
        KunportError: it is something else.
    """
    value = raw.get(name)
    if value is None or isinstance(value, str):
        return value
    raise KunportError(
        f"The field {name} of config.json must be a string but is {_kind(value)}.", "Correct it in config.json."
    )


def architectures(raw: dict[str, Any]) -> list[str]:
    """The classes that the checkpoint was saved from, [] where none are named.

    Raises:
        KunportError: the field is not a list of strings.
    """
    value = raw.get("architectures")
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    raise KunportError(
        f"The field architectures of config.json must be a list of class names but is {_kind(value)}.",
        "Correct it in config.json.",
    )


def auto_classes(raw: dict[str, Any]) -> dict[str, str]:
    """``auto_map``: auto class -> ``file.Class`` in the folder, {} without.

    Raises:
        KunportError: the field is not an object of strings.
    """
    value = raw.get("auto_map")
    if value is None:
        return {}
    if isinstance(value, dict):
        # Entries may be lists (of a slow and a fast tokenizer) or null; those of models and configurations are strings.
        return {key: reference for key, reference in value.items() if isinstance(reference, str)}
    raise KunportError(
        f"The field auto_map of config.json must be an object but is {_kind(value)}.", "Correct it in config.json."
    )


def _decode_floats(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"__float__"} and isinstance(value["__float__"], str):
            return _SPECIAL_FLOATS.get(value["__float__"], value)
        return {key: _decode_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode_floats(item) for item in value]
    return value


def _kind(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    return names[type(value)]
