"""Which operators have a Triton kernel, and the function of each; a module is imported when its first is chosen."""

from kunport_runtime.operators.implementation import Implementation

_FUNCTIONS = {
    "cache_write": ("cache_write",),
    "gated_activation": ("gated_activation",),
    "gated_norm": ("gated_rms_norm",),
    "layer_norm": ("layer_norm",),
    "paged_attention": ("paged_attention",),
    "rms_norm": ("rms_norm", "fused_add_rms_norm"),
    "rope": ("rotary_embedding", "mrotary_embedding", "qk_norm_rope", "qk_norm_rope_cache_write"),
}

IMPLEMENTATIONS = tuple(
    Implementation(operator, "triton", f"kunport_runtime.providers.triton.{module}:{operator}")
    for module, names in _FUNCTIONS.items()
    for operator in names
)
