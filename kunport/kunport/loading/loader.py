"""Makes tiny checkpoints, sound and damaged, and really loads them. Run as a child process, one JSON line a case.

``python -m kunport.loading.loader FOLDER CASE ...`` leaves ``FOLDER/CASE/FAULT`` and prints what loading said.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kunport.loading.planted import FAULTS, SOUND, plant


def main(folder: Path, names: list[str]) -> None:
    """Make and load the checkpoints of each case."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for name in names:
        print(json.dumps({"case": name, **_load_all(folder / name.replace(":", "-"), name)}), flush=True)


def _load_all(folder: Path, name: str) -> dict[str, Any]:
    from safetensors.torch import load_file, save_file

    from kunport.tiny_models.build import build
    from kunport.tiny_models.cases import find_case

    _, model = build(find_case(name))
    model.save_pretrained(folder / SOUND)
    tensors = load_file(folder / SOUND / "model.safetensors")
    said = {SOUND: _load(type(model), folder / SOUND)}
    for fault in FAULTS:
        damaged = plant(fault, tensors, lambda tensor: tuple(tensor.shape), seed=len(name))
        if damaged is None:
            continue
        (folder / fault).mkdir()
        (folder / fault / "config.json").write_text((folder / SOUND / "config.json").read_text())
        contents = {key: tensor.clone() for key, tensor in damaged.items()}
        save_file(contents, folder / fault / "model.safetensors", {"format": "pt"})
        said[fault] = _load(type(model), folder / fault)
    return said


def _load(model_class: Any, folder: Path) -> dict[str, list[str]]:
    """The names that loading complains about, by its own kinds; ``error`` where it stopped."""
    try:
        _, info = model_class.from_pretrained(folder, output_loading_info=True, ignore_mismatched_sizes=True)
    except Exception as error:  # whatever loading raises is what it says about these files
        return {"error": [f"{type(error).__name__}: {error}".partition("\n")[0]]}
    return {kind: sorted(map(str, found)) for kind, found in info.items() if found}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
