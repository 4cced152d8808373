"""Over how many tensor-parallel ranks the tensors of a model can be cut, as the generated adapter would cut them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Graph
from kunport_codegen.lowering import LoweringError, lower
from kunport_codegen.lowering.splits import Split
from kunport_codegen.recognition import recognize

NUMBERS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Ranks:
    """Which numbers of ranks divide a model.

    Attributes:
        possible: number of ranks -> reasons why not; none where it is possible.
        unknown: why nothing is known beyond one rank, "" where it is.
    """

    possible: Mapping[int, list[str]] = field(default_factory=dict)
    unknown: str = ""


def tensor_parallel(graph: Graph) -> Ranks:
    """The numbers of ranks that divide every tensor, by the layers of the engine that lowering puts them in."""
    if graph.unknowns():
        return Ranks({1: []}, "the model is not wholly understood")
    try:
        model = lower(graph, recognize(graph))
    except LoweringError as error:
        refusal = error.refusals[0]
        return Ranks({1: []}, f"no adapter can be generated yet: {refusal.op} at {refusal.where}: {refusal.reason}")
    whole = [f"{refusal.op} at {refusal.where}: {refusal.reason}" for refusal in model.whole]
    return Ranks({ranks: (whole if ranks > 1 else []) + _uneven(graph, model.splits, ranks) for ranks in NUMBERS})


def _uneven(graph: Graph, splits: Mapping[str, Split], ranks: int) -> list[str]:
    """The first tensor of each kind of split that this number of ranks does not divide."""
    found: dict[Split, str] = {}
    for path, split in splits.items():
        if split not in found and not split.divides(ranks):
            shape = [unwrap(size) for size in graph.parameters[path].shape]
            units = ", ".join(map(str, (*split.units, *split.copied)))
            found[split] = f"{path} {shape} has {units} units in dimension {split.dim}"
    return list(found.values())
