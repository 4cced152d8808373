"""Models whose code lies in a checkpoint folder or in a file of the user's."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import Any

from kunport.analysis.library.definitions import class_body, classes, read_source
from kunport.analysis.library.installed import Installation
from kunport.analysis.library.native import find_config_file
from kunport.analysis.library.roots import configuration_class, model_classes
from kunport.analysis.library.target import Target
from kunport.errors import KunportError


def custom_target(
    library: Installation,
    folder: Path,
    raw: dict[str, Any],
    model: str | None,
    names: list[str],
    config: str | None,
    model_type: str | None,
) -> Target:
    """The target of code in a folder.

    ``model`` and ``config`` are references ``file.Class`` of ``auto_map``; where there is no ``model``, the first of
    ``names`` (``architectures``) that a file of the folder defines is taken, else the one that looks like a model.

    Raises:
        KunportError: a reference leads nowhere, or no class or several look like the model.
    """
    if model is not None:
        modeling, architecture = _resolve(folder, model)
    else:
        defined = modeling_classes(folder)
        named = next((name for name in names if name in defined), None)
        architecture = named or only_model(folder, model_classes(python_files(folder)))
        modeling = defined[architecture]
    source = read_source(modeling)
    beside = [each for each in python_files(folder) if each != modeling]
    config_class = (
        _declared_config(source, architecture)
        or configuration_class([modeling], architecture)
        or configuration_class([modeling, *beside], architecture)
    )
    config_file = _find_config(library, modeling, config_class) if config_class else None
    if config is not None:
        config_file, config_class = _resolve(folder, config)
    return Target(
        architecture=architecture,
        model_type=model_type or "",
        modeling=modeling,
        module=modeling.stem,
        root=folder,
        config_class=config_class,
        config_file=config_file,
        raw_config=raw,
        checkpoint=folder if raw else None,
    )


def modeling_classes(path: Path) -> dict[str, Path]:
    """The classes that a file, or the Python files of a folder, define: name -> file.

    Where two files define a name, a ``modeling_*.py`` wins over others.
    """
    if os.path.isfile(path):
        return dict.fromkeys(classes(read_source(path)), path)
    return {name: file for file in python_files(path) for name in classes(read_source(file))}


def python_files(folder: Path) -> list[Path]:
    """The Python files of a folder, modeling files last."""
    files = filter(Path.is_file, folder.glob("*.py"))  # a pipe of that name would never end
    return sorted(files, key=lambda file: (file.name.startswith("modeling"), file.name))


def only_model(place: Path, candidates: list[str]) -> str:
    """The one candidate.

    Raises:
        KunportError: there is none, or there are several.
    """
    if not candidates:
        others = ", ".join(list(modeling_classes(place))[-3:])
        raise KunportError(
            f"{place} defines no class for causal language modeling{f' (it has {others})' if others else ''}.",
            "Give the file that defines the *ForCausalLM class, or name the class: FILE.py:CLASS.",
        )
    if len(candidates) > 1:
        file = f"{place}" if os.path.isfile(place) else f"{place / 'FILE.py'}"
        raise KunportError(
            f"{place} defines several models ({', '.join(candidates)}).", f"Name the class: {file}:{candidates[0]}."
        )
    return candidates[0]


def _resolve(folder: Path, reference: str) -> tuple[Path, str]:
    """The file and class of ``file.Class``; ``repository--file.Class`` stands for code of another place."""
    repository, _, local = reference.rpartition("--")
    if repository:
        raise KunportError(
            f"The auto_map of {folder / 'config.json'} has {reference!r}, code of the repository {repository}.",
            f"Copy that code into the folder and write {local!r} there.",
        )
    stem, _, name = local.rpartition(".")
    path = folder / f"{stem}.py"
    if not re.fullmatch(r"[\w-]+", stem):
        raise KunportError(
            f"The auto_map of {folder / 'config.json'} has {reference!r}, which is not FILE.CLASS.",
            "Correct it in config.json.",
        )
    if not os.path.isfile(path):
        raise KunportError(
            f"The auto_map names {stem}.py, which {folder} does not have.",
            "Copy it from where the checkpoint came from.",
        )
    if name not in classes(read_source(path)):
        raise KunportError(
            f"The auto_map names {name}, which {path} does not define.", "Correct auto_map in config.json."
        )
    return path, name


def _declared_config(source: str, architecture: str) -> str | None:
    """The configuration class that a model class, or a base of it in the same file, declares."""
    defined, waiting, seen = set(classes(source)), [architecture], set()
    while waiting:  # depth first, left to right; bases may go in circles
        name = waiting.pop()
        body = class_body(source, name) if name not in seen else None
        seen.add(name)
        if body is None:
            continue
        if (found := _own_config(body)) is not None:
            return found
        bases = [base.id for base in body.bases if isinstance(base, ast.Name) and base.id in defined]
        waiting.extend(reversed(bases))
    return None


def _own_config(body: ast.ClassDef) -> str | None:
    """The name that the body of a class gives ``config_class``, or annotates ``config`` with."""
    for statement in body.body:
        value: ast.expr | None = None
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            value = statement.value if statement.targets[0].id == "config_class" else None
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value = statement.annotation if statement.target.id == "config" else None
        if isinstance(value, ast.Name):
            return value.id
    return None


def _find_config(library: Installation, modeling: Path, config_class: str) -> Path | None:
    """The file of a configuration class: the model's own, else one beside it, else in Transformers."""
    here = {**modeling_classes(modeling.parent), **modeling_classes(modeling)}.get(config_class)
    if here is not None:
        return here
    owner = next((model_type for model_type, name in library.configs.items() if name == config_class), None)
    return find_config_file(library, owner, config_class) if owner else None
