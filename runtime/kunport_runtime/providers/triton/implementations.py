"""Which operators have a Triton kernel, and the function of each; a module is imported when its first is chosen."""

from kunport_runtime.operators.implementation import Implementation
from kunport_runtime.operators.limit import Limit

_FUNCTIONS = {
    "cache_write": ("cache_write",),
    "channel_state": ("rg_lru", "rwkv"),
    "embed_tokens": ("embed_tokens",),
    "expert_routing": ("expert_routing",),
    "fused_experts": ("fused_experts",),
    "gated_activation": ("gated_activation",),
    "gated_norm": ("gated_rms_norm",),
    "grouped_matmul": ("grouped_matmul",),
    "layer_norm": ("layer_norm",),
    "linear": ("linear",),
    "matrix_state": ("linear_attention", "gated_delta_rule"),
    "mla_attention": ("mla_attention",),
    "mla_cache_write": ("mla_cache_write",),
    "mlstm": ("mlstm",),
    "paged_attention": ("paged_attention",),
    "quantize_rows": ("quantize_rows",),
    "quantized_matmul": ("fp8_matmul", "int8_matmul"),
    "rms_norm": ("rms_norm", "fused_add_rms_norm"),
    "rope": ("rotary_embedding", "mrotary_embedding", "qk_norm_rope", "qk_norm_rope_cache_write"),
    "sample": ("sample",),
    "selective_scan": ("mamba1_scan", "mamba2_scan"),
    "short_convolution": ("short_convolution",),
}

# What a program holds whole, in registers or in shared memory, has an end; all else is taken as contracts give it.
_STATES = "a program has the states of a whole row"
_LIMITS = {
    "expert_routing": (Limit("experts", maximum=4096, why="a program has the scores of a whole token"),),
    "gated_delta_rule": (Limit("key_dim", maximum=1024, why=_STATES),),
    "linear_attention": (Limit("key_dim", maximum=1024, why=_STATES),),
    "mamba1_scan": (Limit("state_size", maximum=1024, why=_STATES),),
    "mamba2_scan": (Limit("state_size", maximum=1024, why=_STATES),),
    "mla_attention": (
        Limit("latent_dim", maximum=512, why="a program has whole rows of the cache"),
        Limit("rope_dim", maximum=128, why="a program has whole rows of the cache"),
    ),
    "mlstm": (Limit("key_dim", maximum=1024, why=_STATES),),
    "quantize_rows": (Limit("group", maximum=1 << 15, why="a program has a whole group"),),
    "short_convolution": (Limit("width", maximum=16, why="its inputs are written out one by one"),),
}

IMPLEMENTATIONS = tuple(
    Implementation(
        operator, "triton", f"kunport_runtime.providers.triton.{module}:{operator}", _LIMITS.get(operator, ())
    )
    for module, names in _FUNCTIONS.items()
    for operator in names
)
