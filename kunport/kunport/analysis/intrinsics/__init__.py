"""What the analysis knows without reading source: one file a family, all in one `registry`."""

from . import (
    builtin_functions,
    builtin_types,
    decorators,
    einops,
    enums,
    masks,
    module_containers,
    module_leaves,
    modules,
    multihead_attention,
    namespaces,
    outputs,
    records,
    stacked,
    standard,
    tensors,
    torch,
    transformers,
)
from .registry import NAMES, TENSOR_MEMBERS, external

# Importing a family registers its names.
FAMILIES = (
    *(builtin_functions, builtin_types, decorators, einops, enums, masks, module_containers, module_leaves),
    *(modules, multihead_attention, namespaces, outputs, records, stacked, standard, tensors, torch, transformers),
)

__all__ = ["FAMILIES", "NAMES", "TENSOR_MEMBERS", "external"]
