"""Emission: from a model graph to the files of an adapter."""

from __future__ import annotations

from kunport_codegen.emission.companions import manifest, parity_test, readme
from kunport_codegen.emission.identifiers import EmissionError, module_name
from kunport_codegen.emission.kernels import FILE as KERNELS
from kunport_codegen.emission.kernels import kernel_file, kernel_test
from kunport_codegen.emission.model_file import model_file
from kunport_codegen.facts import Facts
from kunport_codegen.graph import Graph
from kunport_codegen.lowering import LoweredModel, LoweringError, Refusal, lower
from kunport_codegen.recognition import recognize

__all__ = ["emit", "module_name"]


def emit(graph: Graph) -> dict[str, str]:
    """The files of the adapter for a model: file name -> text. The same graph gives the same bytes.

    Raises:
        LoweringError: something in the model has no place in the engine, or a name in it cannot stand in code; all
            that stands in the way of lowering is named.
    """
    facts = recognize(graph)
    model = lower(graph, facts)
    try:
        return _files(model, facts)
    except EmissionError as error:
        raise LoweringError([Refusal(model.root.where, graph.architecture, str(error))]) from error


def _files(model: LoweredModel, facts: Facts) -> dict[str, str]:
    module = module_name(model.graph.model_type)
    files = {
        f"{module}.py": model_file(model),
        "README.md": readme(model, facts),
        f"test_{module}.py": parity_test(model),
    }
    if kernels := kernel_file(model):
        files |= {KERNELS: kernels, f"test_{module}_kernels.py": kernel_test(model)}
    return {**files, "adapter.json": manifest(model, files)}
