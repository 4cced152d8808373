"""What lowering hands to emission."""

from __future__ import annotations

from dataclasses import dataclass, field

from kunport_codegen.graph import DType, Graph, Guard, Location
from kunport_codegen.lowering.errors import Refusal
from kunport_codegen.lowering.flow import Layout
from kunport_codegen.lowering.head import Head
from kunport_codegen.lowering.splits import Split
from kunport_codegen.lowering.structure import Body
from kunport_codegen.lowering.weights import WeightMap


@dataclass(frozen=True, slots=True)
class Opportunity:
    """Operators that run as plain torch where a kernel could serve: which, in which class, from which line."""

    op: str
    cls: str
    where: Location


@dataclass(slots=True)
class LoweredModel:
    """A model as classes of the engine.

    Attributes:
        graph: what it was lowered from.
        root: the body of the outermost module, up to the hidden states that the head reads.
        head: the head, the logits processor, and what they are tied to.
        layouts, dtypes, names: of values; names are what they are best called.
        weights: how a checkpoint is loaded.
        guards: decisions of the configuration that the adapter depends on.
        splits: how tensor-parallel ranks share each parameter, by path; one that is not named is whole on every rank.
        whole: why it runs on one tensor-parallel rank only; empty if it runs on any number.
        fused: for the report, what was put into which layer of the engine.
        opportunities: what runs as plain torch.
    """

    graph: Graph
    root: Body
    head: Head
    layouts: dict[int, Layout]
    dtypes: dict[int, DType | None]
    names: dict[int, str]
    weights: WeightMap
    guards: list[Guard]
    splits: dict[str, Split] = field(default_factory=dict)
    whole: list[Refusal] = field(default_factory=list)
    fused: list[str] = field(default_factory=list)
    opportunities: list[Opportunity] = field(default_factory=list)
