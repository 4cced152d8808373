"""Static reading of a model: from source and configuration to a model graph, running nothing of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kunport_codegen.graph import Graph, Node

from kunport.uncollected import uncollected

__all__ = ["Analysis", "analyze"]


@dataclass(slots=True)
class Analysis:
    """A model as its source and its configuration describe it.

    Attributes:
        graph: what the model computes.
        checkpoint: the folder of its weights, None without.
        architecture, model_type: as `Graph` has them.
        sources: every file that was read, by the name that the graph's locations use, with its SHA-256.
        unknowns: nodes that were not understood; the model cannot be ported while there are any.
        missing: tensors of the model that the checkpoint does not fill.
        unused: tensors of the checkpoint that the model has no place for.
        ignored: regular expressions of those that its source says are to be left aside.
    """

    graph: Graph
    checkpoint: Path | None
    architecture: str
    model_type: str
    sources: dict[str, str]
    unknowns: list[Node]
    missing: list[str]
    unused: list[str]
    ignored: list[str]


def analyze(model: str | Path, *, config: Mapping[str, Any] | None = None) -> Analysis:
    """Reads a model.

    Args:
        model: a checkpoint folder, a modeling file, an architecture or a model type.
        config: fields that replace the configuration's.

    Raises:
        KunportError: the model cannot be found, is no text decoder, or its source or checkpoint is broken.
    """
    from kunport.analysis.assemble import read_target
    from kunport.analysis.checkpoint import has_weights
    from kunport.analysis.config import load_config
    from kunport.analysis.config.derivation import derived_fields
    from kunport.analysis.config.limits import check_built, check_numbers
    from kunport.analysis.library import locate
    from kunport.analysis.library.contradictions import contradictions
    from kunport.analysis.renames import SubModel, read_renames
    from kunport.analysis.stored_buffers import keep_to_checkpoint

    target = locate(model)
    if config:
        target = replace(target, raw_config={**target.raw_config, **config})
    check_numbers(target.raw_config)
    with uncollected():
        reading = read_target(target, load_config(target))
        graph = reading.graph
        graph.derived = derived_fields(target)
        check_built(graph, target.raw_config)
        graph.notes.extend(contradictions(target))
        if target.checkpoint is not None and has_weights(target.checkpoint):
            keep_to_checkpoint(graph, target.checkpoint)
        names = read_renames(target, [SubModel(*each) for each in reading.pretrained], reading.base, graph.parameters)
        graph.renames = names.renames
    return Analysis(
        graph=graph,
        checkpoint=target.checkpoint,
        architecture=graph.architecture,
        model_type=graph.model_type,
        sources=graph.sources,
        unknowns=graph.unknowns(),
        missing=[name for name in names.missing if graph.parameters[name].initial is None],
        unused=names.unused,
        ignored=reading.ignored,
    )
