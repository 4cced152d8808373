"""One attention of a built model, to be run again with changed insides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from kunport.oracle.norm_form import NormForm
from kunport.oracle.watch import Call, Change, Record, Scores, close, watch

TENSORS = ("query", "key", "value")


class ProbeError(Exception):
    """A probe cannot tell, and why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: its softmax attention, the calls of its modules and what it puts out."""

    scores: Scores
    record: Record
    result: Tensor


class Probe:
    """The module ``call.module``, in whose forward one softmax attention runs over ``length`` tokens, batch 1.

    ``norms`` holds the norm modules of the model and their forms.
    """

    def __init__(self, call: Call, length: int, norms: dict[nn.Module, NormForm]) -> None:
        self.call, self.length, self.norms = call, length, norms
        self.module = call.module

    def run(
        self,
        changes: dict[nn.Module, Change] | None = None,
        bypass: Collection[nn.Module] = (),
        grad: bool = False,
        hidden: Change | None = None,
    ) -> Outcome:
        """Run the attention again on what it read in the model; ``hidden`` changes the first tensor of that."""
        read = self.call.input

        def changed(value: object) -> object:
            if hidden is None or read is None or not isinstance(value, Tensor) or value.shape != read.shape:
                return value
            return hidden(value) if torch.equal(value, read) else value

        with torch.set_grad_enabled(grad), watch(self.module, self.length, changes, bypass) as record:
            self.module(*map(changed, self.call.args), **{key: changed(v) for key, v in self.call.kwargs.items()})
        if not record.scores or record.scores[0].value is None:
            raise ProbeError("the product with the values was not seen")
        result = record.calls[0].result
        if result is None:
            raise ProbeError("the attention puts out no tensor")
        return Outcome(record.scores[0], record, result)

    @cached_property
    def base(self) -> Outcome:
        """The run without changes."""
        return self.run()

    @cached_property
    def leaves(self) -> list[nn.Module]:
        """Modules without children that compute something of their own, in order of their first call."""
        called = dict.fromkeys(call.module for call in self.base.record.calls)
        return [m for m in called if not list(m.children()) and (m in self.norms or list(m.parameters()))]

    @cached_property
    def feeds(self) -> dict[nn.Module, frozenset[str]]:
        """Which of query, key and value each leaf has a part in."""
        return {leaf: self._fed_by(leaf) for leaf in self.leaves}

    def _fed_by(self, leaf: nn.Module) -> frozenset[str]:
        generator = torch.Generator().manual_seed(1)
        scores = self.run({leaf: lambda out: out * (1 + torch.rand(out.shape, generator=generator)) + 0.1}).scores
        before = self.base.scores
        return frozenset(name for name in TENSORS if not close(getattr(scores, name), getattr(before, name), 1e-6))

    def last_projection(self, name: str) -> nn.Module:
        """The last linear layer before ``name`` (query, key or value)."""
        feeding = [leaf for leaf in self.leaves if name in self.feeds[leaf] and leaf not in self.norms]
        if not feeding:
            raise ProbeError(f"no projection of the {name} is a module")
        if not is_linear(feeding[-1]):
            raise ProbeError(f"the {name} passes a {type(feeding[-1]).__name__}")
        return feeding[-1]

    def norms_after(self, projection: nn.Module, name: str) -> list[nn.Module]:
        """The norms between a projection and ``name``."""
        later = self.leaves[self.leaves.index(projection) + 1 :]
        return [leaf for leaf in later if leaf in self.norms and name in self.feeds[leaf]]

    @cached_property
    def projections(self) -> dict[str, nn.Module]:
        """The last linear layer before query, key and value each."""
        return {name: self.last_projection(name) for name in TENSORS}

    @cached_property
    def inner_norms(self) -> list[nn.Module]:
        """Norms after the projections of query, key or value."""
        after = (self.norms_after(self.projections[name], name) for name in TENSORS)
        return list(dict.fromkeys(norm for norms in after for norm in norms))

    @cached_property
    def output_projection(self) -> nn.Module:
        """The linear layer that ends the attention."""
        after = [leaf for leaf in self.leaves if not self.feeds[leaf] and is_linear(leaf)]
        if not after:
            raise ProbeError("no output projection was found")
        return after[-1]

    @cached_property
    def latent(self) -> bool:
        """Whether key and value come from one projection of a latent that another projection makes."""
        shared = [leaf for leaf in self.leaves if {"key", "value"} <= self.feeds[leaf] and is_linear(leaf)]
        if len(shared) < 2 or self.projections["value"] is not shared[-1]:
            return False
        moved = self.run({shared[0]: lambda out: out + out.flip(-1)}).record
        before, after = (_input(record, shared[-1]) for record in (self.base.record, moved))
        return not close(before, after, 1e-6)


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear layer: a matrix and at most a bias."""
    parameters = dict(module.named_parameters(recurse=False))
    weight = parameters.get("weight")
    return weight is not None and weight.ndim == 2 and set(parameters) <= {"weight", "bias"}


def calls_of(record: Record, module: nn.Module) -> list[Call]:
    """The calls of one module."""
    return [call for call in record.calls if call.module is module]


def _input(record: Record, module: nn.Module) -> Tensor:
    tensor = calls_of(record, module)[0].input
    if tensor is None:
        raise ProbeError("a projection reads no tensor")
    return tensor
