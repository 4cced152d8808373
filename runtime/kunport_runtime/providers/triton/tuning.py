"""Tuning as data: which block sizes, warps and stages an operator takes on a device, by dtype and shape.

A table is a JSON file named after the device, `tuning/nvidia_h200.json`:

    {"paged_decode": [{"dtype": "bfloat16", "shape": {"page": 16, "keys": 2048}, "config": {"block": 32, "warps": 1}}]}

The entry taken is the one of that dtype whose shape is nearest in powers of two; what its config does not name, and
everything where no entry is, comes from the defaults that the launcher passes, which are safe on every device.
"""

import contextlib
import functools
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

import torch

Config = dict[str, int | bool]


class Entry(TypedDict):
    """What was found best for one dtype and shape."""

    dtype: str
    shape: dict[str, int]
    config: Config


Table = dict[str, list[Entry]]
FOLDER = Path(__file__).parent / "tuning"
_forced: dict[str, Config] = {}


def lookup(operator: str, dtype: torch.dtype, device: torch.device, defaults: Config, **shape: int) -> Config:
    """The configuration of `operator` for tensors of `dtype` on `device`, nearest to `shape` (positive sizes)."""
    if operator in _forced:
        return defaults | _forced[operator]
    key = tuple((name, _bucket(size)) for name, size in shape.items())
    return _nearest(operator, str(dtype).removeprefix("torch."), device_name(device), tuple(defaults.items()), key)


@contextlib.contextmanager
def forced(operator: str, config: Config) -> Iterator[None]:
    """Inside, `operator` takes this configuration, whatever the tables say: for benchmarks."""
    _forced[operator] = config
    try:
        yield
    finally:
        del _forced[operator]


def _bucket(size: int) -> int:
    """Sizes within an eighth of a power of two share an entry, so that ragged batches do not fill the cache."""
    return round(8 * math.log2(max(size, 1)))


@functools.lru_cache(maxsize=4096)
def _nearest(
    operator: str,
    dtype: str,
    device: str,
    defaults: tuple[tuple[str, int | bool], ...],
    shape: tuple[tuple[str, int], ...],
) -> Config:
    return dict(defaults) | _found(table(device), operator, dtype, dict(shape))


def nearest(table: Table, operator: str, dtype: torch.dtype, shape: Mapping[str, int]) -> Config:
    """What a table says of a shape; {} where it has nothing on that operator in that dtype."""
    buckets = {name: _bucket(size) for name, size in shape.items()}
    return _found(table, operator, str(dtype).removeprefix("torch."), buckets)


def _found(table: Table, operator: str, dtype: str, buckets: Mapping[str, int]) -> Config:
    def distance(entry: Entry) -> float:
        return sum(abs(bucket - _bucket(entry["shape"].get(name, 1))) for name, bucket in buckets.items())

    entries = [entry for entry in table.get(operator, []) if entry["dtype"] == dtype]
    return min(entries, key=distance)["config"] if entries else {}


@functools.cache
def table(device: str) -> Table:
    """The table of a device: the user's own (folder KUNPORT_TUNING) before the one that ships; empty without either."""
    for folder in (os.environ.get("KUNPORT_TUNING"), FOLDER):
        if folder and (path := Path(folder) / f"{device}.json").is_file():
            found: Table = json.loads(path.read_text())
            return found
    return {}


def write_table(path: Path, table: Table) -> None:
    """Write a table, an entry a line, whole or not at all."""
    operators = []
    for operator, entries in sorted(table.items()):
        lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
        operators.append(f' "{operator}": [\n{lines}\n ]')
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(operators) + "\n}\n")
    os.replace(file.name, path)


@functools.cache
def device_name(device: torch.device) -> str:
    """The name of its table, without the suffix."""
    if device.type != "cuda":
        return device.type
    return re.sub(r"[^a-z0-9]+", "_", torch.cuda.get_device_name(device).lower()).strip("_")
