"""The verbs of the command line as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kunport.errors import NotPortableError

if TYPE_CHECKING:
    from kunport.adapter_merge import Merge
    from kunport.analysis import Analysis
    from kunport.analysis.weights import WeightProof
    from kunport.porting import Port
    from kunport.validation import Report, Stage


def analyze(model: str | Path, *, config: Mapping[str, Any] | None = None) -> Analysis:
    """Read a model's source into a graph, without importing or running it.

    Args:
        model: a checkpoint folder, a modeling file, an architecture or a model type.
        config: fields that replace the configuration's.

    Raises:
        KunportError: the model cannot be found, is no text decoder, or its source or checkpoint is broken.
    """
    from kunport.analysis import analyze as read

    return read(model, config=config)


def prove_weights(analysis: Analysis) -> WeightProof | None:
    """Compare the names and shapes in a checkpoint's headers with the model's tensors; None where there are no weights.

    Raises:
        KunportError: the checkpoint cannot be read.
    """
    if analysis.checkpoint is None:
        return None
    from kunport.analysis.checkpoint import has_weights, read_checkpoint
    from kunport.analysis.weights import prove

    if not has_weights(analysis.checkpoint):
        return None
    return prove(analysis.graph, read_checkpoint(analysis.checkpoint), analysis.ignored)


def generate_adapter(analysis: Analysis, output: str | Path = "adapters") -> Path:
    """Write the adapter of an analysed model to ``output/MODEL_TYPE`` and return that folder.

    It appears whole or not at all, and replaces an adapter that nobody has edited.

    Raises:
        NotPortableError: something is not understood, or has no place in the engine.
        KunportError: the folder holds an edited adapter or something else, or cannot be written, or the checkpoint that
            was analysed does not fit the model.
    """
    from kunport.adapter_folder import folder_for, write_adapter

    folder = folder_for(analysis, Path(output))
    return write_adapter(_adapter_files(analysis), folder)


def merge_adapter(analysis: Analysis, output: str | Path = "adapters") -> Merge:
    """As `generate_adapter`, with the edits of the adapter that stands there: see `kunport.adapter_merge`."""
    from kunport.adapter_folder import folder_for
    from kunport.adapter_merge import merge_adapter as merge

    folder = folder_for(analysis, Path(output))
    return merge(_adapter_files(analysis), folder)


def _adapter_files(analysis: Analysis) -> dict[str, str]:
    from kunport_codegen.emission import emit
    from kunport_codegen.lowering.errors import LoweringError

    from kunport.description import Unknown

    check_understood(analysis)
    check_weights(analysis)
    try:
        return dict(emit(analysis.graph))
    except LoweringError as error:
        refusals = [
            Unknown(f"no place in the engine yet: {refusal.op}: {refusal.reason}", refusal.where)
            for refusal in error.refusals
        ]
        raise NotPortableError(refusals) from error


def check_understood(analysis: Analysis) -> None:
    """Raise `NotPortableError` if the analysis left something unknown."""
    from kunport.description import unknowns_of

    if unknowns := unknowns_of(analysis.graph):
        raise NotPortableError(unknowns)


def check_weights(analysis: Analysis) -> None:
    """Raise `KunportError` if the analysed checkpoint's weights cannot be the model's."""
    from kunport.analysis.checkpoint import has_weights, read_checkpoint
    from kunport.analysis.weights import check, refuse_misfit

    if analysis.checkpoint is not None and has_weights(analysis.checkpoint):
        shapes = {name: tensor.shape for name, tensor in read_checkpoint(analysis.checkpoint).items()}
        refuse_misfit(check(analysis.graph, shapes, analysis.ignored), analysis.checkpoint)


def validate(
    adapter: str | Path,
    checkpoint: str | Path,
    *,
    analysis: Analysis | None = None,
    on_stage: Callable[[Stage], None] | None = None,
    **options: Any,
) -> Report:
    """Compare an adapter in the real vLLM engine with the real Hugging Face model.

    Args:
        adapter: its folder.
        checkpoint: folder of configuration and weights.
        analysis: whose graph is then executed as it is and compared as well.
        on_stage: told of each stage when it starts and when it ends.
        **options: of `kunport.validation.validate`: batch sizes, prompts, seed, tokens, limits, trust_remote_code.

    Raises:
        KunportError: the input or the call is wrong, so that there is nothing to judge.
    """
    from kunport.validation import validate as judge

    graph = None if analysis is None else analysis.graph
    return judge(Path(adapter), Path(checkpoint), graph=graph, on_stage=on_stage, **options)


def tiny(model: str, output: str | Path, *, seed: int = 0, engine: bool = True, dtype: str = "float32") -> Path:
    """Write a small checkpoint with random weights of an architecture; see `kunport.tiny_models.checkpoint`."""
    from kunport.tiny_models.checkpoint import write_checkpoint

    return write_checkpoint(model, Path(output), seed=seed, engine=engine, dtype=dtype)


def port(
    model: str | Path,
    output: str | Path = "adapters",
    *,
    on_stage: Callable[[Stage], None] | None = None,
    **options: Any,
) -> Port:
    """Analyse a model, generate its adapter, and validate that; write adapter and reports to ``output/MODEL_TYPE``.

    A model without weights, named by architecture, model type or file, is validated with a tiny checkpoint, made in
    ``output/checkpoints``.

    Args:
        model: a checkpoint folder, a modeling file, an architecture, a model type, or a variant of `kunport.tiny`.
        output: the folder that KUNPORT_ADAPTER_PATH then names.
        on_stage: told of each stage when it starts and when it ends.
        **options: of `kunport.validation.validate`.

    Raises:
        KunportError: the input or the call is wrong.
    """
    from kunport.porting import run

    return run(model, Path(output), on_stage, options)
