"""How many tensor-parallel ranks each parameter can be cut over, by the layer of the engine that holds it.

Rules: vLLM's ``model_executor/layers/linear.py``, ``vocab_parallel_embedding.py`` and ``fused_moe``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

from kunport_codegen.expression import Scalar, unwrap
from kunport_codegen.graph import Graph
from kunport_codegen.lowering.flow import parent
from kunport_codegen.lowering.members import Member, Repeat


@dataclass(frozen=True, slots=True)
class Split:
    """How ranks share a parameter.

    Attributes:
        dim: the dimension that is cut; None where every rank holds the whole.
        units: numbers of things (heads, rows, columns) that are dealt out whole; one for each part of a packed tensor.
        copied: numbers of units of which ranks hold copies where there are more ranks than units (key-value heads).
        padded: the engine pads the dimension until it can be cut.
    """

    dim: int | None
    units: tuple[int, ...] = ()
    copied: tuple[int, ...] = ()
    padded: bool = False

    def divides(self, ranks: int) -> bool:
        """Whether that many ranks can hold it."""
        if self.padded or self.dim is None:
            return True
        return all(units % ranks == 0 for units in self.units) and all(
            units % ranks == 0 or ranks % units == 0 for units in self.copied
        )


WHOLE = Split(None)


def splits(graph: Graph, members: Iterable[Member], transposed: Container[str] = ()) -> dict[str, Split]:
    """Path of each parameter that a layer of the engine holds -> how ranks share it.

    ``transposed`` are paths of matrices that lie the other way round in the checkpoint: their split is that of it.
    """
    owned: dict[str, list[str]] = {}
    for path in graph.parameters:
        owned.setdefault(parent(path), []).append(path)
    found: dict[str, Split] = {}
    for member in members:
        for place, source in enumerate(member.sources):
            for path in owned.get(source, ()):
                shape = graph.parameters[path].shape
                turned = path in transposed
                split = _split(member, place, path, shape[::-1] if turned else shape)
                found[path] = replace(split, dim=1 - split.dim) if turned and split.dim is not None else split
    return found


def _split(member: Member, place: int, path: str, shape: tuple[int | Scalar, ...]) -> Split:
    match member.factory:
        case "QKVParallelLinear":
            heads = unwrap(member.args[2])
            kv_heads = unwrap(member.args[3]) if len(member.args) > 3 else heads
            if len(member.sources) == 1:
                return Split(0, (heads,), (kv_heads,))
            return Split(0, (heads,)) if place == 0 else Split(0, (), (kv_heads,))
        case "HeadsRMSNorm":
            return Split(0, (), (unwrap(member.args[0]),))
        case "MergedColumnParallelLinear":
            size = member.args[1].value if isinstance(member.args[1], Repeat) else shape[0]
            return Split(0, (unwrap(size),))
        case "ColumnParallelLinear":
            return Split(0, (unwrap(shape[0]),))
        case "RowParallelLinear" if path.endswith(".weight"):
            return Split(1, (unwrap(shape[1]),))
        case "VocabParallelEmbedding" | "ParallelLMHead":
            return Split(0, padded=True)
        case "FusedMoEFactory":
            width, hidden = unwrap(member.kwargs["intermediate_size"]), unwrap(member.kwargs["hidden_size"])
            turned = "is_fused_checkpoint_transposed" in member.kwargs or bool(member.apart and member.apart.transposed)
            down = tuple(map(unwrap, shape[1:])) == ((width, hidden) if turned else (hidden, width))
            return Split(2 if down is not turned else 1, (width,))
    return WHOLE
