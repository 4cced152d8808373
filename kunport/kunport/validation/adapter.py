"""Which adapter of a folder is meant for a checkpoint."""

from __future__ import annotations

from pathlib import Path

from kunport_model_adapters.discovery import Adapter, find_adapters
from kunport_model_adapters.errors import AdapterError

from kunport.errors import KunportError


def choose_adapter(folder: Path, architecture: str) -> Adapter:
    """The adapter for an architecture: the folder's own, or one of those in it.

    Raises:
        KunportError: there is none, or one that cannot be read.
    """
    if not folder.is_dir():
        raise KunportError(
            f"There is no adapter folder {folder}.", "Name the folder that `kunport generate adapters` wrote."
        )
    try:
        found = {adapter.manifest.architecture: adapter for adapter in find_adapters(str(folder))}
    except AdapterError as error:
        raise KunportError(error.problem, error.cure) from error
    if architecture not in found:
        raise KunportError(
            f"{folder} holds an adapter for {', '.join(sorted(found))}, and the checkpoint is a {architecture}.",
            f"Generate one with `kunport generate adapters {architecture}`, or name another checkpoint.",
        )
    return found[architecture]


def is_its_class(adapter: Adapter, file: str, name: str) -> bool:
    """Whether a class of this file and name is the adapter's."""
    own = adapter.folder / adapter.manifest.file
    return Path(file).resolve() == own.resolve() and name == adapter.manifest.class_name
