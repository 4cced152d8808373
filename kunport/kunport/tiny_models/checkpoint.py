"""Writes a tiny model as a checkpoint folder: configuration, safetensors and a tokenizer of bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kunport.errors import KunportError
from kunport.folders import replaced_folder
from kunport.tiny_models.build import build
from kunport.tiny_models.cases import Case, find_case

MARKER = "kunport-tiny.json"  # says that the folder is ours to replace, and how its weights were made


def write_checkpoint(model: str, output: Path, *, seed: int = 0, engine: bool = True, dtype: str = "float32") -> Path:
    """Write a checkpoint with random weights of the case called ``model`` (see `find_case`) to the folder ``output``.

    Args:
        model: an architecture, a model type, or a model type and variant.
        output: becomes the checkpoint folder; replaced if this function made it.
        seed: of the weights.
        engine: use sizes that vLLM's CPU kernels take.
        dtype: torch's name of the weights' type.

    Raises:
        KunportError: there is no such model, or the folder is not empty and is not ours, or it cannot be written.
    """
    case = find_case(model)
    check_replaceable(output)
    _, module = build(case, seed=seed, dtype=dtype, engine=engine)
    with replaced_folder(output) as folder:
        module.save_pretrained(folder)
        write_tokenizer(folder)
        (folder / MARKER).write_text(json.dumps(_origin(case, seed, engine, dtype), indent=2) + "\n")
    return output


def check_replaceable(output: Path) -> None:
    """Raise unless ``output`` is missing, an empty folder, or a folder that carries our marker."""
    if not output.exists():
        return
    if not output.is_dir():
        raise KunportError(f"{output} is a file.", "Choose another folder with --output.")
    if any(output.iterdir()) and not (output / MARKER).is_file():
        raise KunportError(
            f"{output} is not empty and kunport did not make it.", "Choose another folder with --output or empty it."
        )


def write_tokenizer(folder: Path) -> None:
    """Write a byte-level tokenizer: token i is byte i in the order of the byte-level alphabet, 256 in all."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def _origin(case: Case, seed: int, engine: bool, dtype: str) -> dict[str, Any]:
    return {"case": str(case), "seed": seed, "engine_sizes": engine, "dtype": dtype}
