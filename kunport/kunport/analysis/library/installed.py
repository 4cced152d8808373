"""The installed Transformers package as files: its folder, its version and its tables of models."""

from __future__ import annotations

import importlib.util
import re
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from kunport.analysis.library.definitions import classes, read_source, table
from kunport.errors import KunportError

# A model of one of these tables of modeling_auto.py is not a text decoder, whatever else it can do. The first that
# has it says what to call it.
_OTHER_TASKS = {
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES": "a multimodal model (image and text to text)",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES": "a multimodal model",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES": "an encoder-decoder for speech",
    "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING_NAMES": "a model that generates audio",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES": "an encoder-decoder",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES": "an encoder (a masked language model)",
}


class Installation:
    """Transformers below ``root`` (the folder that holds ``transformers/``), read and never imported."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.version = version
        self._tables: dict[str, dict[str, Any]] = {}

    def __str__(self) -> str:
        return f"Transformers {self.version}"

    @cached_property
    def causal(self) -> dict[str, str]:
        """Model type -> class with a language-modeling head."""
        return {key: _first(value) for key, value in self._modeling_table("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES").items()}

    def types_of(self, architecture: str) -> list[str]:
        """The model types of a class with a language-modeling head."""
        return [model_type for model_type, name in self.causal.items() if name == architecture]

    @cached_property
    def configs(self) -> dict[str, str]:
        """Model type -> configuration class."""
        return self._config_table("CONFIG_MAPPING_NAMES")

    @cached_property
    def _modules(self) -> dict[str, str]:
        """Model type -> folder below ``models/``, where the name does not follow from the type."""
        return self._config_table("SPECIAL_MODEL_TYPE_TO_MODULE_NAME")

    def other_task(self, model_type: str) -> str | None:
        """What a model type is that is not a text decoder ("a multimodal model"), None for one that may be."""
        for name, description in _OTHER_TASKS.items():
            if model_type in self._modeling_table(name):
                return description
        return None

    def task_of(self, architecture: str) -> str | None:
        """What a class outside the causal-LM table is, such as "for masked lm", None for one of no table."""
        source = self._modeling_source
        if f'"{architecture}"' not in source:
            return None
        for line in source.splitlines():
            name = line.partition(" = ")[0]
            if not (name.startswith("MODEL_") and name.endswith("_MAPPING_NAMES")) or "PRETRAINING" in name:
                continue
            if any(architecture == _first(value) for value in self._modeling_table(name).values()):
                task = name.removeprefix("MODEL_FOR_").removesuffix("_MAPPING_NAMES").lower().replace("_", " ")
                return "a base model without a head" if name == "MODEL_MAPPING_NAMES" else f"for {task}"
        return None

    def folder(self, model_type: str) -> Path:
        """The folder of a model type's files."""
        return self.root / "transformers" / "models" / self._modules.get(model_type, model_type.replace("-", "_"))

    def defining_file(self, folder: Path, kind: str, name: str) -> Path | None:
        """The file ``<kind>_*.py`` of the folder that defines the class."""
        for path in sorted(folder.glob(f"{kind}_*.py")):
            if name in classes(read_source(path)):
                return path
        return None

    def module(self, path: Path) -> str:
        """The dotted name of a file of the package."""
        return ".".join(path.relative_to(self.root).with_suffix("").parts)

    def contains(self, path: Path) -> bool:
        return (self.root / "transformers") in path.parents

    @cached_property
    def _modeling_source(self) -> str:
        return self._read("modeling_auto.py")

    def _modeling_table(self, name: str) -> dict[str, Any]:
        if name not in self._tables:
            self._tables[name] = self._table(self._modeling_source, name)
        return self._tables[name]

    def _config_table(self, name: str) -> dict[str, Any]:
        generated = self._table(self._read("auto_mappings.py"), name)
        return self._table(self._read("configuration_auto.py"), name, generated)

    def _read(self, name: str) -> str:
        try:
            return read_source(self.root / "transformers" / "models" / "auto" / name)
        except OSError:
            return ""  # tables of another version may lie elsewhere: the one that is missing is named then

    def _table(self, source: str, name: str, known: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            found = table(source, name, known)
        except (ValueError, TypeError, RecursionError):
            found = {}
        if not found:
            raise KunportError(
                f"The table {name} of {self} could not be read.", "Install transformers 5.19.0, which kunport knows."
            )
        return found


@cache
def installation() -> Installation:
    """The Transformers that this Python would import.

    Raises:
        KunportError: there is none.
    """
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        raise KunportError(
            "Transformers is not installed, so there is no model source to read.",
            "Run `pip install transformers==5.19.0`.",
        )
    origin = Path(spec.origin).resolve()
    # The version as the package itself says it: importlib.metadata would take longer than everything else here.
    version = re.search(r'^__version__ = "(.+)"', read_source(origin), re.MULTILINE)
    return Installation(origin.parent.parent, version.group(1) if version else "")


def _first(value: Any) -> str:
    """The class that a table's value means: Transformers takes the first of several."""
    return str(value[0] if isinstance(value, tuple | list) else value)
