"""Which contracts the vendor's operators implement, with the limits that those have.

What is not here has no operator of the vendor that is known to do it; docs/kunlun.md says of some why.
"""

from __future__ import annotations

from dataclasses import dataclass

from kunport_runtime.operators.contract import FLOATS
from kunport_runtime.operators.implementation import Implementation
from kunport_runtime.operators.limit import Limit
from kunport_runtime.providers.vendor.limits import LimitWhere, same_dtype
from kunport_runtime.providers.vendor.wheel import Wheel

HEAD_SIZES = (32, 64, 80, 96, 112, 120, 128, 192, 256, 512)
_ONE = "the vendor's operator has no other"


@dataclass(frozen=True, slots=True)
class VendorImplementation(Implementation):
    """An implementation that is another one with another wheel.

    Attributes:
        wheel: its identity.
    """

    wheel: str = ""

    def digest(self) -> str:
        """Of kunport's source and of the wheel."""
        return f"{Implementation.digest(self)} {self.wheel}"


def implementations(wheel: Wheel) -> tuple[Implementation, ...]:
    """What a wheel implements."""
    listed = (
        _needs(
            wheel,
            ("rmsnorm",),
            "norms:rms_norm",
            Limit("weight.given", one_of=(True,), why=_ONE),
            *same_dtype("weight", "x", "float32"),
            _offsets(wheel, "gemma_rmsnorm"),
            Limit("cast", one_of=("before_weight", "after_weight"), why="within the tolerance of either"),
        ),
        _needs(
            wheel,
            ("add_rmsnorm",),
            "norms:fused_add_rms_norm",
            Limit("weight.given", one_of=(True,), why=_ONE),
            *same_dtype("weight", "x", "float32"),
            _offsets(wheel, "gemma_add_rmsnorm"),
            Limit("cast", one_of=("before_weight", "after_weight"), why="within the tolerance of either"),
        ),
        _needs(
            wheel,
            ("rms_norm_gated",),
            "norms:gated_rms_norm",
            Limit("weight.given", one_of=(True,), why=_ONE),
            *same_dtype("weight", "x"),
            LimitWhere("group_size", minimum="size", why="whole rows", where=(Limit("group_size", minimum=1),)),
            Limit("activation", one_of=("silu",), why=_ONE),
        ),
        _needs(
            wheel,
            ("rotary_embedding",),
            "positions:rotary_embedding",
            Limit("key.given", one_of=(True,), why="the vendor turns both"),
        ),
        _needs(
            wheel,
            ("mrotary_embedding_neox",),
            "positions:mrotary_embedding",
            Limit("key.given", one_of=(True,), why="the vendor turns both"),
            Limit("pairing", one_of=("half",), why=_ONE),
            Limit("order", one_of=("blocks",), why=_ONE),
        ),
        _needs(wheel, ("swiglu",), "activations:gated_activation", *_silu()),
        _needs(
            wheel,
            ("reshape_and_cache_flash",),
            "attention:cache_write",
            Limit("key_cache.dtype", one_of=FLOATS, why="8 bits are int8 there"),
            Limit("value_cache.dtype", one_of=FLOATS, why="8 bits are int8 there"),
        ),
        _needs(
            wheel,
            ("prefill_attention",),
            "attention:paged_attention",
            Limit("head_dim", one_of=HEAD_SIZES),
            Limit("value_dim", minimum="head_dim", maximum="head_dim", why="heads have one size"),
            *same_dtype("key_cache", "query"),
            *same_dtype("value_cache", "query"),
            Limit("softcap", one_of=(0.0,), why=_ONE),
        ),
        _needs(
            wheel,
            ("concat_and_cache_mla",),
            "attention:mla_cache_write",
            Limit("cache.dtype", one_of=FLOATS, why=_ONE),
            Limit("cache.contiguous", one_of=(True,)),
        ),
        _needs(wheel, ("matmul",), "matmul:linear"),
        _needs(wheel, ("matmul",), "matmul:int8_matmul"),
        _needs(
            wheel,
            ("quant2d",),
            "matmul:quantize_rows",
            Limit("out.dtype", one_of=("int8",), why=_ONE),
            Limit("group", minimum="size", why="whole rows"),
        ),
        _needs(
            wheel,
            ("moe_softmax_topk", "moe_softmax_topk_norm", "moe_sigmoid_group_topk_norm"),
            "experts:expert_routing",
            *_routings(),
        ),
        _needs(
            wheel,
            ("gen_block_statistic", "moe_pre_sorted", "moe_fc", "swiglu", "moe_post"),
            "experts:fused_experts",
            *_silu(),
            Limit("experts", maximum=512),
            Limit("gate_up_bias.given", one_of=(False,), why=_ONE),
            Limit("down_bias.given", one_of=(False,), why=_ONE),
        ),
    )
    return tuple(each for each in listed if each is not None)


def _needs(wheel: Wheel, operators: tuple[str, ...], function: str, *limits: Limit) -> Implementation | None:
    """An implementation, where the wheel has the operators that it calls."""
    if not wheel.has(*operators):
        return None
    return VendorImplementation(
        function.partition(":")[2],
        "vendor",
        f"kunport_runtime.providers.vendor.{function}",
        tuple(limits),
        wheel.identity,
    )


def _offsets(wheel: Wheel, gemma: str) -> Limit:
    return Limit("offset", one_of=(0.0, 1.0) if wheel.has(gemma) else (0.0,), why=_ONE)


def _silu() -> tuple[Limit, ...]:
    """The gated activation that the vendor has."""
    return (
        Limit("activation", one_of=("silu",), why=_ONE),
        Limit("packing", one_of=("halves",), why=_ONE),
        Limit("alpha", one_of=(1.0,), why=_ONE),
        Limit("limit", one_of=(0.0,), why=_ONE),
        Limit("up_offset", one_of=(0.0,), why=_ONE),
    )


def _routings() -> tuple[Limit, ...]:
    """Softmax knows neither groups nor a bias; sigmoid always renormalises, and judges a group by its two best."""
    softmax, sigmoid = Limit("scoring", one_of=("softmax",)), Limit("scoring", one_of=("sigmoid",))
    return (
        LimitWhere("groups", maximum=1, why="with softmax", where=(softmax,)),
        LimitWhere("correction_bias.given", one_of=(False,), why="with softmax", where=(softmax,)),
        LimitWhere("renormalize", one_of=(True,), why="with sigmoid", where=(sigmoid,)),
        LimitWhere("experts", maximum=512, why="with sigmoid", where=(sigmoid,)),
        LimitWhere(
            "group_score",
            one_of=("top_two_sum",),
            why="with sigmoid",
            where=(sigmoid, Limit("groups", minimum=2)),
        ),
    )
