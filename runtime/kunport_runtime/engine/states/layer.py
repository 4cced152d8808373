"""What all layers with a state share: the operator is run on the states of the sequences in the batch."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from vllm.config import get_current_vllm_config
from vllm.distributed import (
    get_tensor_model_parallel_rank,
    get_tensor_model_parallel_world_size,
    tensor_model_parallel_all_gather,
)
from vllm.forward_context import get_forward_context
from vllm.utils.torch_utils import direct_register_custom_op

from kunport_runtime import operators
from kunport_runtime.engine.layers.naming import Named
from kunport_runtime.engine.states.cache import StateCache
from kunport_runtime.engine.states.metadata import StateBatch
from kunport_runtime.engine.states.state import State, part_of
from kunport_runtime.operators.accounting import layer as counted_layer


class StateLayer(Named, nn.Module):
    """One operator with a state, on flattened tokens.

    A subclass names the operator (``operators``), its states and those of its tensors that have no tokens, and calls
    `run`. Each sequence's state is copied out of its page and back: pages are further apart than operators take.

    Tensor-parallel ranks share out heads or channels, where they divide: each keeps the states of its own, computes
    them from tensors that all have whole, and the results are gathered. Else each rank computes all.
    Tensors have their heads behind the tokens, and `constants` in front; those in ``common`` have none.
    """

    state_names: ClassVar[tuple[str, ...]] = ("state",)
    constants: ClassVar[frozenset[str]] = frozenset()
    common: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, states: tuple[State, ...], prefix: str) -> None:
        super().__init__()
        group = get_tensor_model_parallel_world_size()
        self.ranks, self.rank = states[0].ranks(group), get_tensor_model_parallel_rank()
        self.units = states[0].shape[states[0].axis]
        self.prefix = prefix
        self.cache = StateCache.of_layer(prefix)
        self.places = self.cache.add(tuple(state.of_one(group) for state in states))
        self.options: dict[str, Any] = {}
        layers = get_current_vllm_config().compilation_config.static_forward_context
        if prefix in layers:
            raise ValueError(f"There are two layers called {prefix}.")
        layers[prefix] = self

    def run(self, like: Tensor, **tensors: Tensor | None) -> Tensor:
        """The operator on tensors with leading dimension ``tokens``, but for `constants`; its result is as ``like``."""
        out = torch.empty_like(self._own(like, 1), memory_format=torch.contiguous_format)
        given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        axes = {name: self.axis_of(name) for name in given}
        own = (tensor if (axis := axes[name]) is None else self._own(tensor, axis) for name, tensor in given.items())
        values = [tensor.contiguous() for tensor in own]
        torch.ops.vllm.kunport_state(values, out, ",".join(given), self.prefix)
        return out if self.ranks == 1 else tensor_model_parallel_all_gather(out, 1)

    def _own(self, tensor: Tensor, axis: int) -> Tensor:
        return part_of(tensor, axis, self.units, self.ranks, self.rank)

    @classmethod
    def axis_of(cls, name: str) -> int | None:
        """Where a tensor has its heads or channels; None where it is all ranks'."""
        return None if name in cls.common else 0 if name in cls.constants else 1

    def compute(self, out: Tensor, tensors: dict[str, Tensor]) -> None:
        """What `run` does, outside of what a compiler sees."""
        batch = self.cache.batch()
        if batch is None:
            out.zero_()
            return
        for name in tensors.keys() - self.constants:
            tensors[name] = tensors[name][: batch.tokens]
        pages = self.cache.kv_cache[self.places]
        states = [page[batch.slots] for page in pages]
        with counted_layer(self.layer_name or self.prefix):
            getattr(operators, self.operators[0])(
                out=out[: batch.tokens],
                **tensors,
                **dict(zip(self.state_names, states, strict=True)),
                **self.options,
                **_sequences(batch),
            )
        for page, state in zip(pages, states, strict=True):
            page[batch.slots] = state
        out[batch.tokens :] = 0


def _sequences(batch: StateBatch) -> dict[str, Tensor]:
    return {
        "query_start_loc": batch.query_start_loc,
        "state_slots": torch.arange(len(batch.slots), dtype=torch.int32, device=batch.slots.device),
        "has_initial_state": batch.continued,
    }


def _compute(tensors: list[Tensor], out: Tensor, names: str, layer: str) -> None:
    """``tensors`` by ``names``, separated by commas, for the layer of a name."""
    module: StateLayer = get_forward_context().no_compile_layers[layer]
    module.compute(out, dict(zip(names.split(","), tensors, strict=True)))


direct_register_custom_op("kunport_state", _compute, mutates_args=["out"])
