"""Emission: from a model graph to the files of an adapter."""

from __future__ import annotations

from kunport_codegen.emission.companions import manifest, parity_test, readme
from kunport_codegen.emission.identifiers import EmissionError, module_name
from kunport_codegen.emission.model_file import model_file
from kunport_codegen.graph import Graph
from kunport_codegen.lowering import lower
from kunport_codegen.recognition import recognize

__all__ = ["EmissionError", "emit", "module_name"]


def emit(graph: Graph) -> dict[str, str]:
    """The files of the adapter for a model: file name -> text. The same graph gives the same bytes.

    Raises:
        LoweringError: something in the model has no place in the engine; every such operator is named.
        EmissionError: the model has a form that no adapter is written for, or a name that cannot stand in code.
    """
    facts = recognize(graph)
    model = lower(graph, facts)
    module = module_name(graph.model_type)
    files = {
        f"{module}.py": model_file(model),
        "README.md": readme(model, facts),
        f"test_{module}.py": parity_test(model),
    }
    return {**files, "adapter.json": manifest(model, files)}
