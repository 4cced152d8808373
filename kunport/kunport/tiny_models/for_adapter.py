"""The tiny checkpoint that goes with an adapter."""

from __future__ import annotations

import json
from pathlib import Path

from kunport_model_adapters.manifest import MANIFEST

from kunport.errors import KunportError
from kunport.tiny_models.cases import case_of


def tiny_checkpoint(adapter: Path, output: Path) -> Path:
    """Random weights for the architecture that an adapter is for, written to ``output``.

    Raises:
        KunportError: the folder is no adapter's, or no tiny model of its architecture is known.
    """
    import kunport

    try:
        architecture = str(json.loads((adapter / MANIFEST).read_text(encoding="utf-8"))["architecture"])
    except (OSError, ValueError, KeyError, TypeError):
        raise KunportError(
            f"{adapter} is not an adapter's folder: it has no {MANIFEST} that names an architecture.",
            "Name the folder that `kunport generate adapters` wrote.",
        ) from None
    case = case_of(architecture, "Name the folder of a checkpoint with --checkpoint (of pytest: --kunport-checkpoint).")
    return kunport.tiny(str(case), output)
