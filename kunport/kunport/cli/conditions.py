"""``--fail-on``: when `kunport analyze` exits with status 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kunport.text import counted

if TYPE_CHECKING:
    from kunport.analysis import Analysis
    from kunport.report.formats import Answer
    from kunport.survey import Row


def failing(names: Iterable[str], analysis: Analysis, answer: Answer) -> list[str]:
    """A sentence for each named condition that holds."""
    return [reason for name in names if name in CONDITIONS and (reason := CONDITIONS[name](analysis, answer))]


def _unknown(_: Analysis, answer: Answer) -> str:
    count = len(answer.description.unknowns)
    return f"{counted(count, 'operation', 'is', 'are')} not understood" if count else ""


def _weights(_: Analysis, answer: Answer) -> str:
    faults = answer.weights.faults if answer.weights is not None else ()
    return f"{counted(len(faults), 'tensor', 'does', 'do')} not fit" if faults else ""


def _opaque(_: Analysis, answer: Answer) -> str:
    opaque = answer.description.opaque
    return f"{counted(len(opaque), 'fact', 'is', 'are')} not known" if opaque else ""


def _difference(_: Analysis, answer: Answer) -> str:
    lines = [line for group in answer.description.groups.values() for line in group if not line.usual]
    return f"{counted(len(lines), 'thing', 'differs', 'differ')} from a Llama" if lines else ""


def _kernel(analysis: Analysis, answer: Answer) -> str:
    from kunport_codegen.lowering import LoweringError, lower
    from kunport_codegen.recognition import recognize

    if answer.description.unknowns:
        return "it is not known which kernels it needs: not every operation is understood"
    try:
        model = lower(analysis.graph, recognize(analysis.graph))
    except LoweringError as error:
        return f"no adapter can be generated yet: {error.refusals[0]}"
    count = len(model.opportunities)
    runs = counted(count, "operator", "runs", "run")
    return f"{runs} as plain torch, where a kernel could serve" if count else ""


CONDITIONS: dict[str, Callable[[Analysis, Answer], str]] = {
    "unknown": _unknown,  # an operation is not understood
    "weights": _weights,  # the checkpoint's tensors are not the model's
    "opaque": _opaque,  # a fact is not known, or something is done that no fact states
    "kernel": _kernel,  # it does not run on the engine's own layers alone
    "difference": _difference,  # it does something that a Llama does not
}
DEFAULT = ("unknown", "weights")


def failing_rows(names: Iterable[str], rows: Iterable[Row]) -> list[str]:
    """The same for many models, of which a failed one is always a reason."""
    wanted = {"failed"}.union(*(OF_ROWS[name] for name in names if name in OF_ROWS))
    return [f"{row.model}: {row.verdict}" for row in rows if row.verdict in wanted]


# Condition -> the verdicts of rows that meet it.
OF_ROWS = {
    "unknown": {"not understood"},
    "opaque": {"not understood", "partly understood"},
    "error": {"not analysed"},
}
OF_ROWS_DEFAULT = ("unknown",)
