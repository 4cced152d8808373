"""Linear layers, the head and the embedding, all without quantisation.

vLLM gives each such layer a method that holds no weights, and looks it up at every call: ours takes its place once the
model is built. What has weights in other dtypes than the operators' keeps vLLM's.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

from kunport_runtime import operators
from kunport_runtime.operators.accounting import layer as counted_layer
from kunport_runtime.operators.contract import FLOATS


def _product(name: str, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x`` ``[..., in_size]`` to ``[..., out_size]``."""
    with counted_layer(name):
        out: Tensor = operators.linear(x=x.reshape(-1, x.shape[-1]), weight=weight, bias=bias)
    return out.view(*x.shape[:-1], -1)


class LinearMethod(UnquantizedLinearMethod):
    """Of one linear layer."""

    operators = ("linear",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.layer_name = name

    def apply(self, layer: Any, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return _product(self.layer_name, x, layer.weight.data, bias)


class EmbeddingMethod(UnquantizedEmbeddingMethod):
    """Of one embedding, or head."""

    operators = ("embed_tokens", "linear")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.layer_name = name

    def apply(self, layer: Any, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return _product(self.layer_name, x, layer.weight.data, bias)

    def embedding(self, layer: Any, input_: Tensor) -> Tensor:
        """Tokens ``[...]`` to their rows ``[..., hidden]``; a shard's caller masks those that it has not."""
        with counted_layer(self.layer_name):
            out: Tensor = operators.embed_tokens(ids=input_.flatten(), table=layer.weight.data)
        return out.view(*input_.shape, -1)


_OURS = {UnquantizedLinearMethod: LinearMethod, UnquantizedEmbeddingMethod: EmbeddingMethod}


def replace_products(model: nn.Module) -> None:
    """Give a model's layers these methods, under the names that they have in it."""
    for name, module in model.named_modules():
        ours = _OURS.get(type(getattr(module, "quant_method", None)))
        weight = getattr(module, "weight", None)
        if ours is not None and isinstance(weight, Tensor) and str(weight.dtype).removeprefix("torch.") in FLOATS:
            module.quant_method = ours(name)
