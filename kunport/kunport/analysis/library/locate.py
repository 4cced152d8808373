"""From what the user calls a model to its source files and configuration."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

from kunport.analysis.library import raw_config
from kunport.analysis.library.custom import custom_target, modeling_classes, only_model
from kunport.analysis.library.installed import Installation, installation
from kunport.analysis.library.native import native_target, text_decoder_cure
from kunport.analysis.library.roots import model_classes
from kunport.analysis.library.target import Target
from kunport.analysis.source import SourceFile
from kunport.errors import KunportError

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_CLASS_OF_FILE = re.compile(r"(.+\.py):(\w+)")


def locate(model: str | Path) -> Target:
    """The target that a checkpoint folder, a modeling file, an architecture or a model type names.

    ``FILE.py:CLASS`` names one of several models of a file.

    An architecture and a model type are those of the installed Transformers, with the configuration class's
    defaults. A name that exists as a path is a path, except that a folder without ``config.json`` does not hide a
    model type (``llama/`` beside the user is often an adapter's output).

    Raises:
        KunportError: nothing has that name, or what has it is not a text decoder.
    """
    name = str(model)
    if not name:
        raise KunportError("No model is named.", "Give a checkpoint folder, a modeling file, a class or a model type.")
    named = _CLASS_OF_FILE.fullmatch(name)
    try:
        path = Path(named[1] if named else model).expanduser()
        is_folder, is_file, is_other = path.is_dir(), path.is_file(), path.exists()
    except (OSError, RuntimeError):  # a name that is too long, or of an unknown user's home
        is_folder = is_file = is_other = False
    if is_folder and ((path / "config.json").exists() or name not in installation().causal):
        return _from_folder(path)
    if is_file:
        return _from_file(path, named[2] if named else None)
    if is_other and not is_folder:
        raise KunportError(f"{name} is neither a file nor a folder.", "Give a file that holds source.")
    if isinstance(model, Path) or name.endswith((".py", "/", ".json")) or name.startswith((".", "/", "~")):
        raise KunportError(f"There is no file or folder {name}.", "Check the path.")
    if _HUB_ID.fullmatch(name):
        raise KunportError(
            f"{name} is neither a folder nor a file here, and kunport does not download models.",
            f"Run `hf download {name} --local-dir FOLDER` where there is a network and give the folder.",
        )
    return _from_name(name, installation())


def _from_name(name: str, library: Installation) -> Target:
    if name in library.causal:
        return native_target(library, name)
    types = library.types_of(name)
    if types:  # a class that serves both a composite model and its text decoder alone is meant as the latter
        return native_target(library, next((each for each in types if library.other_task(each) is None), types[0]))
    if name in library.configs:
        what = library.other_task(name) or "a model without a language-modeling head"
        raise KunportError(f"The model type {name} is {what}, not a text decoder.", text_decoder_cure(library, name))
    task = library.task_of(name)
    if task is not None:
        raise KunportError(f"The class {name} is {task}, not a text decoder.", "Name a class that generates text.")
    raise unknown_name(name, library)


def unknown_name(name: str, library: Installation) -> KunportError:
    """The error for a name that is nothing, with what it may have been meant to be."""
    known = {candidate.lower(): candidate for candidate in [*library.causal, *library.causal.values()]}
    close = [known[match] for match in difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6)]
    cure = (
        f"Did you mean {' or '.join(close)}?" if close else "Give a checkpoint folder, a modeling file or such a class."
    )
    return KunportError(f"{name} is no file, no folder and no class or model type of {library}.", cure)


def is_of_own_code(folder: Path, raw: dict[str, Any]) -> bool:
    """Whether ``auto_map`` makes the folder's own code the model: Transformers lacks the model type, or the class.

    ``raw`` is the folder's ``config.json``.
    """
    auto, model_type = raw_config.auto_classes(raw), raw_config.text_field(raw, "model_type")
    reference, library = auto.get("AutoModelForCausalLM"), installation()
    if model_type in library.configs:
        return _is_own_class(folder, reference, library.causal.get(str(model_type)))
    return reference is not None or "AutoConfig" in auto


def _from_folder(folder: Path) -> Target:
    raw = raw_config.read_raw_config(folder)
    names, auto = raw_config.architectures(raw), raw_config.auto_classes(raw)
    model_type = raw_config.text_field(raw, "model_type")
    library = installation()
    reference = auto.get("AutoModelForCausalLM")
    # Transformers takes its own code where it has the model type, and the folder's only otherwise. A class of another
    # name is meant to be taken from the folder all the same.
    if model_type in library.configs and not _is_own_class(folder, reference, library.causal.get(str(model_type))):
        return _native_checkpoint(folder, raw, model_type, names, library)
    if reference is not None or any(name in modeling_classes(folder) for name in names):
        return custom_target(library, folder, raw, reference, names, auto.get("AutoConfig"), model_type)
    if not names and any(folder.glob("*.py")):
        return custom_target(library, folder, raw, None, [], auto.get("AutoConfig"), model_type)
    if model_type is None and not names:
        raise KunportError(
            f"{folder / 'config.json'} names no model (neither architectures nor model_type).",
            "Give the folder of a language model's checkpoint.",
        )
    unknown = names[0] if names else str(model_type)
    raise KunportError(
        f"{folder / 'config.json'} is for {unknown}, which {library} does not have and the folder does not define.",
        f"Put its modeling file into the folder. {unknown_name(unknown, library).cure}".removesuffix(
            " Give a checkpoint folder, a modeling file or such a class."
        ),
    )


def _is_own_class(folder: Path, reference: str | None, native: str | None) -> bool:
    """Whether ``auto_map`` names a class that lies in the folder and that Transformers has under no such name."""
    file, _, name = (reference or "").rpartition("--")[2].rpartition(".")
    return bool(file) and name != native and os.path.isfile(folder / f"{file}.py")


def _native_checkpoint(
    folder: Path, raw: dict[str, Any], model_type: str, names: list[str], library: Installation
) -> Target:
    if model_type == "mistral" and "layer_types" in raw:  # AutoConfig reads such a checkpoint as a ministral
        model_type, names = "ministral", []
        raw = {**raw, "model_type": model_type}
    saved = names[0] if names else model_type
    nested, text_type = raw.get("text_config"), f"{model_type}_text"
    if isinstance(nested, dict) and saved == library.causal.get(text_type):  # the text decoder under a composite's name
        return native_target(library, text_type, raw=nested, checkpoint=folder)
    task = None if saved in library.causal.values() else library.task_of(saved)
    if task is None and model_type not in library.causal:
        task = library.other_task(model_type) or "a model without a language-modeling head"
    if task is not None:
        cure = text_decoder_cure(library, model_type)
        raise KunportError(f"{folder} holds a {saved}, which is {task}, not a text decoder.", cure)
    return native_target(library, model_type, raw=raw, checkpoint=folder)


def _from_file(path: Path, architecture: str | None) -> Target:
    library = installation()
    if path.suffix != ".py":
        raise KunportError(f"{path} is not a Python file.", "Give a modeling file or the folder of a checkpoint.")
    if not re.fullmatch(r"[\w-]+", path.stem):
        raise KunportError(
            f"{path.name} cannot be the name of a Python module.", "Rename it: letters, digits, _ and - before .py."
        )
    file = path.resolve()
    defined = list(modeling_classes(path))
    if library.contains(file):
        decoders = [name for name in defined if _is_decoder(name, library)]
        return _from_name(architecture or only_model(path, decoders or model_classes([path])), library)
    candidates = model_classes([path]) if architecture is None else []
    if architecture is None:
        if not candidates:
            SourceFile(path, str(path)).check()  # a line that is not Python may be why
        architecture = only_model(path, candidates)
    elif architecture not in defined:
        raise KunportError(f"{path} defines no class {architecture}.", f"It has {', '.join(defined[-8:])}.")
    folder = path.parent
    raw = raw_config.read_raw_config(folder) if (folder / "config.json").is_file() else {}
    config = raw_config.auto_classes(raw).get("AutoConfig")
    model_type = raw_config.text_field(raw, "model_type")
    return custom_target(library, folder, raw, f"{path.stem}.{architecture}", [], config, model_type)


def _is_decoder(architecture: str, library: Installation) -> bool:
    return any(library.other_task(model_type) is None for model_type in library.types_of(architecture))
