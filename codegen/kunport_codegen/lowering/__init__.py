"""Lowering: from a model graph and its facts to classes of the engine, by a list of small passes.

The passes run in this order on a `Flow`, each in a file of its own, one after another in ``passes``:

1. ``ingest``: recognised operators take the place of the nodes they cover.
2. ``written``, ``spelled``, ``tokens``: tensors written in parts are joined, linear layers written as products named;
   ``[batch, sequence, ...]`` becomes ``[tokens, ...]``.
3. ``repeated``, ``views``: key-value heads are shared; rotation and attention work on heads side by side; views cancel.
4. ``head``, ``embedding``: the ends of the model.
5. ``projections``, ``gated``, ``parallel``: linear layers, packed and split over ranks.
6. ``norms``, ``rotary``, ``attention``, ``experts``, ``states``: the engine's layers.
7. ``constants``, ``widening``, ``residual``: tables are computed once; the stream between layers; additions move into
   the norms after them.
8. ``structure``, ``layers``, ``sharing``: classes, one for all layers, one for all modules of a source class.
9. ``rowwise``: chains of row-wise operators that no layer took become kernels.
10. ``weights``, ``guards``: how a checkpoint is loaded, and which are refused.

They are imported when `lower` is first asked for: some parts of the package are of use without them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kunport_codegen.lowering.errors import LoweringError, Refusal
    from kunport_codegen.lowering.model import LoweredModel, Opportunity
    from kunport_codegen.lowering.passes import lower

_HOMES = {
    "LoweredModel": "model",
    "LoweringError": "errors",
    "Opportunity": "model",
    "Refusal": "errors",
    "lower": "passes",
}
__all__ = ["LoweredModel", "LoweringError", "Opportunity", "Refusal", "lower"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
