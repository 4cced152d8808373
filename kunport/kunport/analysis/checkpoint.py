"""The tensors of a safetensors checkpoint, by their headers: names, dtypes and shapes, and no weight is loaded.

Format: https://github.com/huggingface/safetensors#format. A file is eight bytes with the length of the header
(little-endian), the header (JSON), and the data; several files have an index that says which tensor is where.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from kunport.errors import KunportError

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_MAX_HEADER = 100_000_000  # bytes; the format's own limit

# Name in the file -> torch's name and bits per element.
_DTYPES = {
    "BOOL": ("bool", 8),
    "U8": ("uint8", 8),
    "I8": ("int8", 8),
    "U16": ("uint16", 16),
    "I16": ("int16", 16),
    "U32": ("uint32", 32),
    "I32": ("int32", 32),
    "U64": ("uint64", 64),
    "I64": ("int64", 64),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "F32": ("float32", 32),
    "F64": ("float64", 64),
    "C64": ("complex64", 64),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F4": ("float4_e2m1fn_x2", 4),
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a checkpoint: torch's name of its dtype, its shape, and the file that holds it."""

    dtype: str
    shape: tuple[int, ...]
    file: Path


def has_weights(folder: Path) -> bool:
    """Whether the folder holds tensors at all, rather than only a configuration."""
    return (folder / INDEX).is_file() or any(folder.glob("*.safetensors"))


def read_checkpoint(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor of the folder's checkpoint, by name.

    An index is preferred to a single file, as loading does.

    Raises:
        KunportError: there is no safetensors checkpoint, a file that the index names is missing, a file is truncated
            or its header is broken, or the index and the files disagree.
    """
    if (folder / INDEX).is_file():
        return _read_indexed(folder)
    if (folder / SINGLE).is_file():
        return read_header(folder / SINGLE)
    others = sorted(path.name for path in folder.glob("*.safetensors"))
    if len(others) == 1:  # some checkpoints have one file under a name of their own
        return read_header(folder / others[0])
    if others:
        raise KunportError(
            f"{folder} has several safetensors files and no {INDEX} that says which belong to the model.",
            "Restore the index from where the checkpoint came from.",
        )
    if any(folder.glob("pytorch_model*.bin")):
        raise KunportError(
            f"{folder} holds its weights in the pickle format, which kunport does not read.",
            "Load it with Transformers and save it again: save_pretrained writes safetensors.",
        )
    raise KunportError(f"{folder} holds no weights ({SINGLE}).", "Give the folder of a complete checkpoint.")


def read_header(path: Path) -> dict[str, StoredTensor]:
    """The tensors of one safetensors file, by name.

    Raises:
        KunportError: the file is unreadable, truncated or not a safetensors file, or a tensor's bytes do not fit
            its shape.
    """
    try:
        if path.is_fifo():  # it would be waited for
            raise KunportError(f"{path} is a pipe and not a file.", "Put the checkpoint's file there.")
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise _truncated(path, f"it has {size:,} bytes")
            if length > _MAX_HEADER:
                raise _broken(path, "its header is longer than the format allows")
            text = file.read(length)
    except OSError as error:
        raise KunportError(
            f"{path} cannot be read ({error.strerror}).", "Check the file and its permissions."
        ) from error
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _broken(path, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise _broken(path, "its header is not a JSON object")
    header.pop("__metadata__", None)
    tensors, ranges = {}, []
    for name, entry in header.items():
        tensors[name], start, end = _tensor(path, name, entry)
        ranges.append((start, end, name))
    data_size = size - 8 - length
    reached = 0
    for start, end, name in sorted(ranges):
        if start != reached:
            raise _broken(path, f"{name} does not begin where the tensor before it ends")
        reached = end
    if reached > data_size:
        raise _truncated(path, f"its tensors need {reached:,} bytes and it has {data_size:,} for them")
    if reached < data_size:
        raise _broken(path, f"{data_size - reached:,} bytes belong to no tensor")
    return tensors


def _tensor(path: Path, name: str, entry: Any) -> tuple[StoredTensor, int, int]:
    """A header's entry, and where its data begins and ends, counted from the first byte of data."""
    if not isinstance(entry, dict):
        raise _broken(path, f"the entry of {name} is not an object")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _broken(path, f"{name} has the unknown dtype {dtype!r}")
    if not _sizes(shape):
        raise _broken(path, f"the shape of {name} is not a list of sizes")
    if not _sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _broken(path, f"the data_offsets of {name} are not a range of bytes")
    torch_name, bits = _DTYPES[dtype]
    if math.prod(shape) * bits != (offsets[1] - offsets[0]) * 8:
        raise _broken(path, f"{name} is {list(shape)} of {dtype} but has {offsets[1] - offsets[0]:,} bytes")
    return StoredTensor(torch_name, tuple(shape), path), offsets[0], offsets[1]


def _read_indexed(folder: Path) -> dict[str, StoredTensor]:
    path = folder / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KunportError(
            f"{path} cannot be read ({error.strerror}).", "Check the file and its permissions."
        ) from error
    except (ValueError, RecursionError) as error:
        raise _broken(path, "it is not JSON") from error
    mapping = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(mapping, dict) or not all(isinstance(shard, str) for shard in mapping.values()):
        raise _broken(path, "it has no weight_map from tensors to files")
    shards: dict[str, dict[str, StoredTensor]] = {}
    for shard in dict.fromkeys(mapping.values()):
        if Path(shard).name != shard:
            raise _broken(path, f"it names {shard}, which is not a file of the folder")
        if not os.path.isfile(folder / shard):
            raise KunportError(
                f"{folder} lacks {shard}, which {INDEX} names.",
                "Copy the missing file from where the checkpoint came from.",
            )
        shards[shard] = read_header(folder / shard)
    for name, shard in mapping.items():
        if name not in shards[shard]:
            raise _broken(folder / shard, f"it lacks {name}, which {INDEX} puts there")
    return {name: tensor for shard in shards.values() for name, tensor in shard.items()}


def _sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)


def _truncated(path: Path, detail: str) -> KunportError:
    return KunportError(f"{path} is truncated: {detail}.", "Copy the file again from where the checkpoint came from.")


def _broken(path: Path, detail: str) -> KunportError:
    return KunportError(f"{path} is broken: {detail}.", "Copy the file again from where the checkpoint came from.")
