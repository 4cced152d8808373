"""Checkpoint and adapter folders for the tests that need no weights to speak of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "eos_token_id": 2,
}


def write_checkpoint(folder: Path, **fields: Any) -> Path:
    """A folder with a configuration and one small tensor; a field of None is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in (CONFIG | fields).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"model.norm.weight": np.ones(32, np.float32)}, folder / "model.safetensors")
    return folder


def write_adapter(folder: Path, architecture: str = "LlamaForCausalLM", code: str = "") -> Path:
    """A folder with a manifest and a model file."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"schema": 1, "architecture": architecture, "model_type": "llama", "file": "model.py"}
    manifest |= {"class": architecture, "guards": [], "versions": {}, "sources": {}, "files": {}}
    (folder / "adapter.json").write_text(json.dumps(manifest))
    (folder / "model.py").write_text(code)
    return folder
