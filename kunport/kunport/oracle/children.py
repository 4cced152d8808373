"""Labelling many cases, each in a process of its own, which starts with torch and Transformers already imported."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from kunport.oracle.labels import Labels

_LIMIT_S = 300.0
_IMPORTED_ONCE = ("kunport.oracle.label_case", "transformers.models.llama.modeling_llama")  # and what every model needs


def label_cases(cases: Sequence[str], folder: Path) -> Iterator[Labels]:
    """The labels of cases, in order. Each is kept in ``folder`` and made again when a version or the oracle changes."""
    kept = folder / _versions()
    kept.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED_ONCE))
    for case in cases:
        file = kept / f"{case.replace(':', '-')}.json"
        if not file.is_file():
            child = context.Process(target=_label, args=(case, file))
            child.start()
            child.join(_LIMIT_S)
            if child.is_alive():
                child.kill()
                child.join()
        if file.is_file():
            yield Labels.from_dict(json.loads(file.read_text()))
        else:
            yield Labels(case, problem="the process that made the labels ended without them")


def _label(case: str, file: Path) -> None:
    """Write the labels of a case, or what kept them from being made."""
    import torch

    from kunport.oracle.label_case import label_case

    torch.set_num_threads(1)
    try:
        labels = label_case(case)
    except Exception as error:  # whatever a model raises is its case's result
        labels = Labels(case, problem=f"{type(error).__name__}: {str(error)[:200]}")
    part = file.with_suffix(".part")
    part.write_text(json.dumps(asdict(labels)))
    part.replace(file)


def _versions() -> str:
    """A folder's name for the versions of what the labels come from: torch, Transformers, the cases and the oracle."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted([*here.rglob("*.py"), *(here.parent / "tiny_models").glob("*")]):
        if file.is_file() and file.name not in ("compare.py", "score.py", "__main__.py"):
            digest.update(file.read_bytes())
    return f"torch-{version('torch')}-transformers-{version('transformers')}-{digest.hexdigest()[:12]}"
