"""``adapter.json``: what an adapter is, for which architecture, and under which configurations it holds.

``adapter.schema.json`` beside this file is its JSON schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kunport_model_adapters.errors import AdapterError

MANIFEST = "adapter.json"
SCHEMA = Path(__file__).with_name("adapter.schema.json")
VERSION = 1

Outcome = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Guard:
    """A decision that the configuration took.

    Attributes:
        expression: Python over ``config``, see `kunport_model_adapters.guards`.
        outcome: the value that the expression must have.
        where: the source line that decided, such as ``modeling_olmo2.py:120``; "" where it is not known.
    """

    expression: str
    outcome: Outcome
    where: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What ``adapter.json`` says.

    Attributes:
        architecture: as ``architectures`` in the configuration of a checkpoint names it.
        model_type: the configuration's.
        file: the file that holds the model, beside the manifest.
        class_name: the class in it (``class`` in the file).
        guards: what the configuration decided when the adapter was generated.
        versions: distribution -> version that the adapter was generated with.
        sources: file of model source -> SHA-256 of its bytes.
        files: file of the adapter -> SHA-256 of its bytes as generated.
    """

    architecture: str
    model_type: str
    file: str
    class_name: str
    guards: tuple[Guard, ...]
    versions: Mapping[str, str]
    sources: Mapping[str, str]
    files: Mapping[str, str]

    @property
    def module(self) -> str:
        """The file's name as a module."""
        return self.file.removesuffix(".py")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an adapter's folder, and check that the file it names is there.

    Raises:
        AdapterError: the manifest is missing, is no JSON, has a wrong or missing field, or names a missing file.
    """
    path = folder / MANIFEST
    try:
        manifest = parse_manifest(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise AdapterError(f"{path} cannot be read: {error.strerror}.", "Generate the adapter again.") from None
    except RecursionError:
        raise AdapterError(f"{path} is wrong: it is nested too deeply.", "Generate the adapter again.") from None
    except ValueError as error:  # not UTF-8, not JSON, or a field that is wrong
        raise AdapterError(f"{path} is wrong: {error}.", "Generate the adapter again.") from None
    if not (folder / manifest.file).is_file():
        raise AdapterError(f"{path} names {manifest.file}, which is not beside it.", "Generate the adapter again.")
    return manifest


def parse_manifest(data: Any) -> Manifest:
    """The manifest in decoded JSON; keys that are not known are for other readers.

    Raises:
        ValueError: a field is missing or wrong; the message names it.
    """
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")
    version = data.get("schema")
    if isinstance(version, bool) or version != VERSION:
        raise ValueError(f"'schema' is {version!r}, and this version of kunport reads {VERSION}")
    file = _text(data, "file")
    if not (file.endswith(".py") and _is_name(file.removesuffix(".py"))):
        raise ValueError(f"'file' is {file!r}, which is no plain name of a Python module")
    guards = data.get("guards")
    if not isinstance(guards, list):
        raise ValueError("'guards' is missing or no list")
    return Manifest(
        architecture=_name(data, "architecture"),
        model_type=_text(data, "model_type"),
        file=file,
        class_name=_name(data, "class"),
        guards=tuple(_guard(guard) for guard in guards),
        versions=_texts(data, "versions"),
        sources=_texts(data, "sources"),
        files=_texts(data, "files"),
    )


def _guard(data: Any) -> Guard:
    if not isinstance(data, dict) or "outcome" not in data:
        raise ValueError("a guard is no object with an 'outcome'")
    outcome = data["outcome"]
    if not isinstance(outcome, Outcome):
        raise ValueError("the 'outcome' of a guard is no plain value")
    return Guard(_text(data, "expression"), outcome, _text(data, "where") if "where" in data else "")


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise ValueError(f"'{key}' is missing or no text")
    return value


def _name(data: Mapping[str, Any], key: str) -> str:
    value = _text(data, key)
    if not _is_name(value):
        raise ValueError(f"'{key}' is {value!r}, which is no Python name")
    return value


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier()


def _texts(data: Mapping[str, Any], key: str) -> dict[str, str]:
    value = data.get(key)
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError(f"'{key}' is missing or no object of texts")
    return value
