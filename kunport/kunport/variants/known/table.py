"""The table of known models: how it is packed, written and read. `python -m kunport.variants known` writes it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kunport_codegen.graph import Location

from kunport.variants.fact import Fact, LayerKind, ModelFacts

TABLE = Path(__file__).with_name("models.json.gz")
_NOWHERE = Location("", 0)
_OPAQUE = "not told by the analysis that made the table"


@cache
def read_known() -> dict[str, Any]:
    """The table: ``transformers``, the version that was read, and ``models``, packed facts by model type."""
    table: dict[str, Any] = json.loads(gzip.decompress(TABLE.read_bytes()))
    return table


def known_models() -> dict[str, ModelFacts]:
    """The facts of every known model, by model type. They have no fields, lines or reasons."""
    return {name: known_model(name) for name in read_known()["models"]}


@cache
def known_model(name: str) -> ModelFacts:
    """The facts of the known model of a model type."""
    return _unpack(name, read_known()["models"][name])


def architecture_of(name: str) -> str:
    """The class of the known model of a model type."""
    return str(read_known()["models"][name]["architecture"])


def write_known(version: str, models: Mapping[str, ModelFacts]) -> None:
    """Write the table, the same bytes for the same facts."""
    table = {"transformers": version, "models": {name: pack(models[name]) for name in sorted(models)}}
    text = json.dumps(table, separators=(",", ":"))
    TABLE.write_bytes(gzip.compress(text.encode(), mtime=0))


def pack(facts: ModelFacts) -> dict[str, Any]:
    """Values alone: ``architecture``, ``model`` and ``layers``; opaque keys are lists apart."""
    kinds = [{"stack": kind.stack, "layers": list(kind.layers), **_pack_scope(kind.facts)} for kind in _merged(facts)]
    return {"architecture": facts.architecture, "model": _pack_scope(facts.model), "layers": kinds}


def _merged(facts: ModelFacts) -> list[LayerKind]:
    """Kinds that differ in nothing but fields, lines and reasons as one."""
    found: dict[tuple[str, str], LayerKind] = {}
    for kind in facts.kinds:
        key = kind.stack, json.dumps(_pack_scope(kind.facts))
        known = found.get(key)
        layers = tuple(sorted((*known.layers, *kind.layers))) if known is not None else kind.layers
        found[key] = LayerKind(kind.stack, layers, kind.facts)
    return list(found.values())


def _pack_scope(facts: Mapping[str, Fact]) -> dict[str, Any]:
    values = {key: fact.value for key, fact in facts.items() if not fact.reason}
    return {"values": values, "opaque": [key for key, fact in facts.items() if fact.reason]}


def _unpack(name: str, packed: Mapping[str, Any]) -> ModelFacts:
    kinds = (LayerKind(kind["stack"], tuple(kind["layers"]), _unpack_scope(kind)) for kind in packed["layers"])
    return ModelFacts(packed["architecture"], name, _unpack_scope(packed["model"]), tuple(kinds))


def _unpack_scope(packed: Mapping[str, Any]) -> dict[str, Fact]:
    found = {key: Fact(value, _NOWHERE) for key, value in packed["values"].items()}
    return found | {key: Fact(None, _NOWHERE, reason=_OPAQUE) for key in packed["opaque"]}
