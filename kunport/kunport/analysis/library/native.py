"""Models of the installed Transformers."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from kunport.analysis.library.definitions import class_body, read_source
from kunport.analysis.library.installed import Installation
from kunport.analysis.library.target import Target
from kunport.errors import KunportError


def native_target(
    library: Installation, model_type: str, raw: dict[str, Any] | None = None, checkpoint: Path | None = None
) -> Target:
    """The target of a model type that is in the causal-LM table.

    Raises:
        KunportError: it is not a text decoder, or its files are not where Transformers keeps them.
    """
    architecture, config_class = library.causal[model_type], library.configs[model_type]
    config_file, declared = _configuration(library, model_type, config_class)
    what = library.other_task(model_type) or _composite(declared)
    if what is not None:
        raise KunportError(f"{architecture} is {what}, not a text decoder.", text_decoder_cure(library, model_type))
    # An alias (gpt-sw3) shares the configuration of the model type that the class itself names (gpt2).
    own_type = declared.get("model_type", model_type)
    modeling = library.defining_file(library.folder(own_type), "modeling", architecture)
    if modeling is None:
        raise KunportError(
            f"{library} lists {architecture} for {model_type}, but {library.folder(own_type)} does not define it.",
            "Reinstall Transformers.",
        )
    return Target(
        architecture=architecture,
        model_type=own_type,
        modeling=modeling,
        module=library.module(modeling),
        root=library.root,
        config_class=config_class,
        config_file=config_file,
        raw_config=raw or {},
        checkpoint=checkpoint,
    )


def text_decoder_cure(library: Installation, model_type: str) -> str:
    """What to give instead of a composite model: the decoder inside it, where Transformers has that alone."""
    text = f"{model_type}_text"
    if text in library.causal:
        return f"Its text decoder alone is {library.causal[text]} ({text})."
    return "Give a text decoder, such as LlamaForCausalLM."


def find_config_file(library: Installation, model_type: str, config_class: str) -> Path | None:
    """The file that defines a configuration class, which an alias borrows from another model type."""
    owners = [model_type, *(other for other, name in library.configs.items() if name == config_class)]
    for owner in owners:
        path = library.defining_file(library.folder(owner), "configuration", config_class)
        if path is not None:
            return path
    return None


def _configuration(library: Installation, model_type: str, config_class: str) -> tuple[Path, dict[str, Any]]:
    """The configuration's file, and its class's own ``model_type`` and the names of its ``sub_configs``."""
    path = find_config_file(library, model_type, config_class)
    if path is None:
        raise KunportError(
            f"{library} lists {config_class} for {model_type}, but {library.folder(model_type)} does not define it.",
            "Reinstall Transformers.",
        )
    body = class_body(read_source(path), config_class)
    declared: dict[str, Any] = {}
    for statement in body.body if body else []:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
            continue
        name, value = statement.targets[0].id, statement.value
        if name == "model_type" and isinstance(value, ast.Constant):
            declared[name] = value.value
        elif name == "sub_configs" and isinstance(value, ast.Dict):
            declared[name] = [key.value for key in value.keys if isinstance(key, ast.Constant)]
    return path, declared


def _composite(declared: dict[str, Any]) -> str | None:
    parts = [name for name in declared.get("sub_configs", []) if name.startswith(("text_", "vision_", "audio_"))]
    return f"a composite model ({', '.join(parts)})" if parts else None
