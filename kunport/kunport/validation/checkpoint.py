"""What validation must know of a checkpoint before anything is started, read without any framework."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kunport.analysis.checkpoint import read_checkpoint as read_tensors
from kunport.errors import KunportError

_CONTEXT_FIELDS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_sequence_length",
    "seq_length",
    "n_ctx",
)
_DEPTH_FIELDS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH_FIELDS = ("hidden_size", "n_embd", "d_model")

_LEAST_CACHE = 256 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder and its configuration.

    Attributes:
        config: the text model's fields: of ``config.json``, or of the ``text_config`` in it.
        architecture: the first of ``architectures``.
    """

    folder: Path
    config: dict[str, Any]
    architecture: str
    model_type: str

    @property
    def vocabulary(self) -> int:
        """Number of token ids.

        Raises:
            KunportError: the configuration leaves it to a default.
        """
        size = self.config.get("vocab_size")
        if not isinstance(size, int):
            raise KunportError(
                f"{self.folder / 'config.json'} does not give vocab_size.", "Add it, or give the prompts as token ids."
            )
        return size

    @property
    def context(self) -> int | None:
        """The longest sequence in tokens, None where the configuration does not say."""
        return self._first_integer(_CONTEXT_FIELDS)

    @property
    def layers(self) -> int:
        """Number of layers; a large one where the configuration does not say."""
        return self._first_integer(_DEPTH_FIELDS) or 64

    @property
    def width(self) -> int:
        """Elements of a hidden state; a large number where the configuration does not say."""
        return self._first_integer(_WIDTH_FIELDS) or 8192

    def cache_bytes(self, tokens: int) -> int:
        """A size of KV cache that holds so many tokens in float32: twice what heads of the usual size take, or more."""
        keys_and_values = tokens * self.layers * self.width * 2 * 4
        return max(_LEAST_CACHE, 2 * keys_and_values)

    def _first_integer(self, names: tuple[str, ...]) -> int | None:
        return next((self.config[name] for name in names if isinstance(self.config.get(name), int)), None)


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder.

    Raises:
        KunportError: it is no checkpoint, or a weight file is missing, damaged or cut short.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise KunportError(f"{folder} is not a checkpoint: it has no config.json.", "Name the folder that holds it.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise KunportError(f"{path} is not JSON ({error}).", "Download or save the checkpoint again.") from None
    architectures = config.get("architectures") if isinstance(config, dict) else None
    if not architectures:
        raise KunportError(f"{path} names no architecture.", "Add the class's name as its field `architectures`.")
    read_tensors(folder)
    text = config.get("text_config")
    fields = config | text if isinstance(text, dict) else config
    return Checkpoint(folder, fields, str(architectures[0]), str(config.get("model_type", "")))
