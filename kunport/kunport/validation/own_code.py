"""Whether a checkpoint's model exists only as code in its folder, and whether that code may be run."""

from __future__ import annotations

from pathlib import Path

from kunport.analysis.library import raw_config
from kunport.analysis.library.locate import is_of_own_code
from kunport.errors import KunportError


def runs_own_code(folder: Path, *, trusted: bool) -> bool:
    """Whether Transformers is to run the folder's code: where it has no such model, and only if that is ``trusted``.

    A model that Transformers has is taken from there, trusted or not, since that is what was analysed.

    Raises:
        KunportError: it would have to, and the code is not trusted; or what ``auto_map`` names lies elsewhere.
    """
    raw = raw_config.read_raw_config(folder)
    if not is_of_own_code(folder, raw):
        return False
    if not trusted:
        raise KunportError(
            f"Transformers does not have the model of {folder}, so that proving needs Hugging Face to run the folder's "
            "own code (auto_map).",
            "Add --trust-remote-code (in Python: trust_remote_code=True) if you trust that code.",
        )
    auto = raw_config.auto_classes(raw)
    for reference in (auto.get("AutoConfig", ""), auto.get("AutoModelForCausalLM", "")):
        if "--" in reference:
            raise KunportError(
                f"The auto_map of {folder / 'config.json'} names code of a repository, {reference}, and not the "
                "folder's, which is what was analysed.",
                f"Put the code into the folder and write {reference.rpartition('--')[2]}.",
            )
    return True
