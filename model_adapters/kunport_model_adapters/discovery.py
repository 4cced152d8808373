"""Finds adapters: folders that hold an ``adapter.json``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from kunport_model_adapters.errors import AdapterError
from kunport_model_adapters.manifest import MANIFEST, Manifest, read_manifest
from kunport_model_adapters.registry import SHIPPED_VARIABLE, VARIABLE

SHIPPED = Path(__file__).with_name("shipped")


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter on disk: its folder, absolute, and what its manifest says."""

    folder: Path
    manifest: Manifest


def find_adapters(path: str) -> list[Adapter]:
    """The adapters of a search path, in its order and by folder name within an entry.

    Args:
        path: folders separated by ``os.pathsep``; each is an adapter, or holds adapters as its direct children.

    Raises:
        AdapterError: an entry holds no adapter, a manifest is wrong, or an architecture has two adapters.
    """
    entries = [Path(entry) for entry in path.split(os.pathsep) if entry]
    # The same folder may be named twice, by itself and through its parent.
    folders = dict.fromkeys(folder for entry in entries for folder in _adapter_folders(entry))
    found: dict[str, Adapter] = {}
    for folder in folders:
        adapter = Adapter(folder, read_manifest(folder))
        rival = found.setdefault(adapter.manifest.architecture, adapter)
        if rival is not adapter:
            raise AdapterError(
                f"There are two adapters for {adapter.manifest.architecture}, {rival.folder} and {folder}.",
                f"Name only one of them in {VARIABLE}.",
            )
    return list(found.values())


def shipped_adapters() -> list[Adapter]:
    """The adapters that kunport comes with, by model type."""
    return [
        Adapter(folder, read_manifest(folder))
        for folder in sorted(manifest.parent for manifest in SHIPPED.glob(f"*/{MANIFEST}"))
    ]


def shipped_choices(
    named: Collection[str], choice: str, is_native: Callable[[str], bool]
) -> Iterator[tuple[Adapter, str]]:
    """Each shipped adapter, and why it does not serve; "" where it does.

    Args:
        named: architectures that the search path has adapters for.
        choice: one of `kunport_model_adapters.registry.SHIPPED_CHOICES`.
        is_native: whether vLLM has a class of its own for an architecture.
    """
    for adapter in shipped_adapters():
        architecture = adapter.manifest.architecture
        if architecture in named:
            yield adapter, f"{VARIABLE} names another"
        elif choice == "none":
            yield adapter, f"neither KUNPORT_DEVICE nor {SHIPPED_VARIABLE} is set"
        elif choice == "new" and is_native(architecture):
            yield adapter, "vLLM has a class of its own"
        else:
            yield adapter, ""


def _adapter_folders(entry: Path) -> list[Path]:
    if not entry.is_dir():
        raise AdapterError(f"{VARIABLE} names {entry}, which is no folder.", "Name the folder of an adapter.")
    if (entry / MANIFEST).is_file():
        return [entry.resolve()]
    folders = sorted(manifest.parent.resolve() for manifest in entry.glob(f"*/{MANIFEST}"))
    if not folders:
        raise AdapterError(
            f"{VARIABLE} names {entry}, which holds no {MANIFEST}, nor does a folder in it.",
            "Name the folder of an adapter, or one that holds such folders.",
        )
    return folders
