"""How much of each text decoder is not understood: `unknown` nodes among all nodes of its graph."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from kunport.analysis import analyze
from kunport.errors import KunportError
from kunport.tiny_models import find_case
from kunport.tiny_models.build import build_config


@dataclass(frozen=True, slots=True)
class Share:
    """The nodes of a model's graph, those that are not understood, and the first reason; 0 nodes for a refused one."""

    case: str
    nodes: int = 0
    unknown: int = 0
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.case:28}{self.nodes:8}{self.unknown:8}  {self.reason}".rstrip()


HEADER = f"{'case':28}{'nodes':>8}{'unknown':>8}"


def tiny(name: str) -> Share:
    """The share of a case's tiny model, whose logits the sweep over graphs compares."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(build_config(find_case(name)).to_json_string())
        return _share(name, folder)


def default(name: str) -> Share:
    """The share under the defaults of the configuration class, which for some classes can build no model."""
    return _share(name, find_case(name).model_type)


def _share(name: str, model: str) -> Share:
    try:
        graph = analyze(model).graph
    except KunportError as error:
        return Share(name, reason=error.problem)
    unknown = graph.unknowns()
    reason = f"{unknown[0].where}: {unknown[0].args[0]}" if unknown else ""
    return Share(name, sum(1 for _ in graph.walk()), len(unknown), reason)


def total(shares: list[Share]) -> str:
    """The share over all models, and how many models have such nodes or were refused."""
    nodes, unknown = sum(each.nodes for each in shares), sum(each.unknown for each in shares)
    models = sum(bool(each.unknown) or not each.nodes for each in shares)
    percent = 100 * unknown / nodes if nodes else 0.0
    return f"{unknown} of {nodes} nodes are unknown ({percent:.2f} %), in {models} of {len(shares)} models"
