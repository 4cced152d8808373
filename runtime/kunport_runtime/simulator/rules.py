"""The rules of the vendor's operators, as data: each with where it was read, and each broken by a test of its own.

Most are held against every call, and a call that breaks one raises `VendorRuleError` with its name (``seen="call"``).
Some are conventions that no single call shows, a factor or an order: whoever breaks one gets wrong numbers, here as
there, and the contract's cases find them (``seen="numbers"``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kunport_runtime.errors import KunportRuntimeError


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: for errors and tests.
        sentence: what holds.
        source: where it was read.
        seen: in a call, or only in its numbers.
    """

    name: str
    sentence: str
    source: str
    seen: Literal["call", "numbers"] = "call"


_ATTENTION = "vLLM-Kunlun, attention backend"
_CUSTOM = "vLLM-Kunlun, wrappers of custom operators"
_KUNLUN_OPS = "vLLM-Kunlun, KunlunOps"
_SAMPLER = "vLLM-Kunlun, sampler"
_CALLS = "what the arguments of the public calls imply"

RULES = (
    Rule(
        "cache_layout",
        "A cache is [blocks, kv_heads, block_size, head_dim], each page contiguous; tokens come before heads only "
        "where it is written with BLHD_LAYOUT.",
        _ATTENTION,
    ),
    Rule(
        "tables_doubled",
        "Attention counts pages from the cache's start whatever its strides: in a cache whose blocks hold keys and "
        "values by turns, table entries are doubled.",
        _ATTENTION,
    ),
    Rule("tables_form", "Block tables are contiguous int32, as wide as the call says, of pages that exist.", _CALLS),
    Rule(
        "lengths_twice", "Every array of lengths exists on the host and on the device, with equal contents.", _ATTENTION
    ),
    Rule("lod_form", "Starts of sequences are int32, begin with 0, ascend, and end where the rows do.", _ATTENTION),
    Rule(
        "prefill_alpha",
        "Prefill multiplies scores by alpha / sqrt(head_dim): alpha is scale * sqrt(head_dim).",
        _ATTENTION,
        "numbers",
    ),
    Rule("decode_scale", "Decode multiplies scores by the plain scale.", _ATTENTION, "numbers"),
    Rule(
        "head_sizes",
        "Attention has heads of 32, 64, 80, 96, 112, 120, 128, 192, 256 and 512 elements.",
        _ATTENTION,
    ),
    Rule(
        "decode_batch",
        "Decode rejects large batches: 32 sequences are known to run, 1,024 to fail.",
        "public reports on speculative_attention",
    ),
    Rule("decode_one_query", "Decode has one query of each sequence; more is for latent attention.", _ATTENTION),
    Rule("context_limit", "No sequence is longer than the longest that a decode call announces.", _CALLS),
    Rule("attention_contiguous", "Queries and results of attention are contiguous.", _ATTENTION),
    Rule("sink_float32", "Sinks are float32.", _ATTENTION),
    Rule(
        "right_window",
        "A window to the right is not for pages: the device fails.",
        "a public reproducer of error 719 in prefill_attention",
    ),
    Rule("tokens_contiguous", "Keys and values are contiguous where a cache is written.", _ATTENTION),
    Rule("norm_contiguous", "Norms read and write contiguous rows.", _CUSTOM),
    Rule("norm_weight", "A norm's weight is float32 or of its input's dtype.", _KUNLUN_OPS),
    Rule("gated_norm_form", "The gated norm is of whole rows, all of one dtype.", "public callers of rms_norm_gated"),
    Rule("rotary_contiguous", "Queries and keys that are rotated in place are contiguous.", _KUNLUN_OPS),
    Rule("product_contiguous", "Operands of products and of quantisation are contiguous.", _CUSTOM),
    Rule("bias_float32", "The bias of a product is contiguous float32.", "vLLM-Kunlun, int8 linear layers"),
    Rule("int8_maxima", "Scales of int8 are maxima: 127 times the scale.", _CUSTOM, "numbers"),
    Rule(
        "awq_order",
        "A word of four-bit weights holds the columns 1, 0, 3, 2, 5, 4, 7, 6 from its low end: the nibbles 4, 0, 5, 1, "
        "6, 2, 7, 3 of the checkpoint's word.",
        "vLLM-Kunlun, AWQ",
        "numbers",
    ),
    Rule("awq_float16", "AWQ computes in float16.", _CUSTOM),
    Rule("router_float32", "Logits of experts are float32.", _KUNLUN_OPS),
    Rule("experts_limit", "Routing by sigmoid and sorting by expert take at most 512 experts.", _KUNLUN_OPS),
    Rule("block_statistic", "Sorting by expert wants the histogram of the same choice, made before.", _KUNLUN_OPS),
    Rule("expert_ids", "Sorting by expert takes no negative expert.", _CUSTOM),
    Rule(
        "moe_activation",
        "The activation inside moe_fc is wrong from 1,024 tokens on: apply it between two calls.",
        _KUNLUN_OPS,
    ),
    Rule("fused_moe_small", "fused_moe is for less than 400 pairs of token and expert.", _KUNLUN_OPS),
    Rule("sampling_form", "Probabilities that are sampled from are contiguous float32.", _SAMPLER),
    Rule("request_generator", "Sampling operators take no generator: requests with a seed sample natively.", _SAMPLER),
    Rule(
        "seed_ignored",
        "Random numbers of the default generator ignore its seed: ranks that sample for themselves diverge.",
        _SAMPLER,
        "numbers",
    ),
    Rule(
        "schema_types",
        "Custom operators of torch 2.5 declare neither T | None nor list[int].",
        "vLLM-Kunlun, custom operators on torch 2.5",
    ),
)

_BY_NAME = {rule.name: rule for rule in RULES}


class VendorRuleError(KunportRuntimeError):
    """A call breaks a rule of the vendor's operators, and would fail or be wrong on the device.

    Attributes:
        rule: which.
    """

    def __init__(self, rule: Rule, detail: str) -> None:
        super().__init__(f"{rule.name}: {detail}.", rule.sentence)
        self.rule = rule


def require(name: str, holds: bool, detail: str) -> None:
    """Raise where a rule does not hold.

    Raises:
        VendorRuleError: with the rule, and ``detail`` of the call.
    """
    if not holds:
        raise VendorRuleError(_BY_NAME[name], detail)
