"""The cases: every architecture of the causal-LM mapping with its defaults, and configuration variants of them."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kunport.errors import KunportError


@dataclass(frozen=True, slots=True)
class Case:
    """A model type, and the tag of a configuration variant ("" is the default configuration).

    ``overrides`` are the configuration fields that the variant sets, at base width.
    """

    model_type: str
    architecture: str
    tag: str
    overrides: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.model_type}:{self.tag}" if self.tag else self.model_type


@cache
def read_table(name: str) -> dict[str, Any]:
    """A table of this package: ``architectures``, ``variants``, ``sizes``, ``overrides`` or ``engine``."""
    table: dict[str, Any] = json.loads(Path(__file__).with_name(f"{name}.json").read_text())
    return table


def cases() -> list[Case]:
    """Every case: each architecture with its defaults, then each variant."""
    architectures = read_table("architectures")
    plain = [Case(model_type, architecture, "", {}) for model_type, architecture in architectures.items()]
    variants = [
        Case(model_type, architectures[model_type], tag, overrides)
        for (model_type, _, tag), overrides in ((name.partition(":"), o) for name, o in read_table("variants").items())
    ]
    return plain + variants


def find_case(name: str) -> Case:
    """The case called ``name``: a model type, a model type and variant (``llama:llama3_rope``) or an architecture.

    Raises:
        KunportError: there is no such case.
    """
    named = {case.architecture: case for case in cases() if not case.tag} | {str(case): case for case in cases()}
    if name in named:
        return named[name]
    close = difflib.get_close_matches(name, named, n=3)
    hint = f"Did you mean {' or '.join(close)}?" if close else "Name an architecture such as Olmo2ForCausalLM."
    raise KunportError(f"No tiny model is known for {name!r}.", hint)


def case_of(architecture: str, cure: str) -> Case:
    """The case to validate an architecture with, where no checkpoint was named.

    Raises:
        KunportError: there is none; with this cure, how to name a checkpoint.
    """
    for case in cases():
        if case.architecture == architecture and not case.tag:
            return case
    raise KunportError(f"There is no tiny model of {architecture} to validate it with.", cure)
