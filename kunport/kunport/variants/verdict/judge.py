"""The verdict: how a model gets to run, from the engine's table and from lowering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kunport_codegen.facts import Facts
from kunport_codegen.graph import Graph, Location

from kunport.variants.verdict.engine import native_classes, read_engine

if TYPE_CHECKING:
    from kunport_codegen.lowering import LoweredModel
    from kunport_codegen.lowering.structure import Body

AS_IS = "runs as is"
ADAPTER = "runs through a generated adapter"
KERNEL = "needs a generated kernel"
CANNOT = "cannot run yet"
_LIBRARY = "transformers/"  # what locations begin with in files of the installed library
# What lowering refuses that no kernel would help with.
_NO_OPERATOR = frozenset(("weights", "layers", "head", "model", "input"))


@dataclass(frozen=True, slots=True)
class Use:
    """What the engine uses for a kind of operator: a layer of its own, a generated kernel, or plain torch.

    ``operators`` are the modules of the source that it stands for, or the plain operator.
    """

    layer: str
    operators: tuple[str, ...]
    where: Location


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a model gets to run.

    ``answer`` is one of `AS_IS`, `ADAPTER`, `KERNEL` and `CANNOT`; ``reasons`` say why, with lines where there are any;
    ``uses`` what runs its operators, empty where that is not known.
    """

    answer: str
    reasons: tuple[str, ...]
    uses: tuple[Use, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def judge(graph: Graph, recognised: Facts) -> Verdict:
    """The verdict on a model.

    A class of the engine counts for the library's own source only: of code that comes with a checkpoint, nobody has
    compared it with the class of that name.
    """
    module = native_classes().get(graph.architecture)
    if module is not None and all(file.startswith(_LIBRARY) for file in graph.sources):
        reason = f"vLLM {read_engine()['vllm']} has a class of its own for {graph.architecture} (models/{module}.py)"
        return Verdict(AS_IS, (reason,), (Use(f"models/{module}.py", (graph.architecture,), graph.modules[""].where),))
    if unknowns := graph.unknowns():
        reasons = dict.fromkeys(f"{node.where}: {node.args[0]}" for node in unknowns)
        return Verdict(CANNOT, tuple(reasons))
    from kunport_codegen.lowering import LoweringError, lower  # most models never get here, and it is a large package

    try:
        lowered = lower(graph, recognised)
    except LoweringError as error:
        operators = all(refusal.op not in _NO_OPERATOR for refusal in error.refusals)
        reasons = dict.fromkeys(f"{each.where}: {each.op}: {each.reason}" for each in error.refusals)
        return Verdict(KERNEL if operators else CANNOT, tuple(reasons))
    return Verdict(ADAPTER, tuple(_reasons(lowered)), tuple(_uses(lowered)))


def _reasons(lowered: LoweredModel) -> Iterator[str]:
    yield "every operator is understood and has a place in the engine"
    for each in lowered.whole:
        yield f"on one tensor-parallel rank only: {each}"
    for opportunity in lowered.opportunities:
        yield f"{opportunity.where}: {opportunity.op} of {opportunity.cls} runs as plain torch"


def _uses(lowered: LoweredModel) -> Iterator[Use]:
    """Each layer of the engine with what it stands for, then generated kernels and what runs as plain torch."""
    from kunport_codegen.lowering.rowwise import kernels_of

    found: dict[str, dict[str, Location]] = {}
    for name, operators, where in _calls(lowered.root):
        for operator in operators:
            found.setdefault(name, {}).setdefault(operator, where)
    for name, modules in found.items():
        yield Use(name, tuple(modules), next(iter(modules.values())))
    for kernel in kernels_of(lowered.root):
        yield Use("generated Triton kernel", (f"{kernel.name} ({len(kernel.steps)} operators)",), kernel.where)
    for opportunity in lowered.opportunities:
        yield Use("torch", (f"{opportunity.op} of {opportunity.cls}",), opportunity.where)


def _calls(body: Body) -> Iterator[tuple[str, tuple[str, ...], Location]]:
    """The engine's layers of a body and of those inside it, layers once."""
    from kunport_codegen.lowering.structure import steps_of

    for step in steps_of(body):
        if step.name == "call" and step.member is not None:
            sources = [source.rpartition(".")[2] for source in step.member.sources] or [step.member.name]
            yield step.member.factory, tuple(sources), step.where
