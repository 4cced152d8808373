"""What a checkpoint's configuration says that does not fit the source that was read."""

from __future__ import annotations

import os

from kunport.analysis.library import raw_config
from kunport.analysis.library.target import Target


def contradictions(target: Target) -> list[str]:
    """A note for code of the folder that was not read, and for an architecture that is not the model type's."""
    if target.custom or target.checkpoint is None:
        return []
    notes = []
    reference = raw_config.auto_classes(target.raw_config).get("AutoModelForCausalLM") or ""
    file = reference.rpartition("--")[2].rpartition(".")[0]
    if file and os.path.isfile(target.checkpoint / f"{file}.py"):
        notes.append(
            f"{file}.py of the checkpoint's folder was not read: Transformers has {target.architecture} itself, and "
            "takes its own code unless it is told to trust the folder's. Name the file to have it read."
        )
    names = raw_config.architectures(target.raw_config)
    if names and target.architecture not in names:
        notes.append(
            f"config.json names the architecture {names[0]!r}, but its model_type is that of {target.architecture}, "
            "which was read; an engine that goes by the architecture runs another model."
        )
    return notes
