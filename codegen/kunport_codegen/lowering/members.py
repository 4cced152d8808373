"""Layers that an adapter's classes hold, and the values that their constructors are called with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kunport_codegen.expression import Expr
from kunport_codegen.graph import DType, Location


@dataclass(frozen=True, slots=True)
class Name:
    """Code that lowering wrote itself, such as ``quant_config``; never text from a configuration or a source."""

    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """An attribute of a layer built before: ``self.qkv_proj.num_heads``."""

    member: str
    attribute: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """The member's place in the module tree, as a string built at construction."""

    name: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """A list of one value several times."""

    value: Any
    times: int


@dataclass(frozen=True, slots=True)
class Updated:
    """A dictionary of the configuration with one entry changed."""

    value: Any
    key: str
    item: Any


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that depends on the layer's index: ``then`` where ``test`` holds."""

    test: Expr
    then: Any
    otherwise: Any


@dataclass(frozen=True, slots=True)
class Own:
    """A parameter that the class holds itself and hands to a layer: its name there, its sizes in the checkpoint.

    ``flat`` where the layer takes it in one dimension, ``split`` where each tensor-parallel rank has its part of it.
    """

    name: str
    sizes: tuple[Any, ...]
    dtype: DType
    flat: bool = False
    split: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """What a function that adapters share returns for these arguments."""

    function: str
    args: tuple[Any, ...]


# What may stand in a constructor's arguments: plain Python constants, Scalar, Expr, Name, Item, Prefix, Repeat,
# Updated, Choice, Own, Call, and lists and dictionaries of these.
Value = Any

QUANT = Name("vllm_config.quant_config")
CACHE = Name("vllm_config.cache_config")


@dataclass(frozen=True, slots=True)
class Apart:
    """Experts that lie in one tensor in a way that the engine's loader does not know: they are handed to it one by one.

    ``gate_up`` and ``down`` are paths of ``[experts, rows, columns]`` (swapped if ``transposed``), with biases of the
    same names and ``_bias`` if any; gate and up rows alternate if ``interleaved``, else all of the gate come first.
    """

    gate_up: str
    down: str
    biases: tuple[str, ...]
    interleaved: bool
    transposed: bool

    def singles(self, path: str) -> list[str] | None:
        """What the tensors of a single expert are called below the experts; None for another parameter."""
        names = ("gate_proj", "up_proj") if path.startswith(self.gate_up) else ("down_proj",)
        if path in (self.gate_up, self.down, *self.biases):
            return [f"0.{name}.{'bias' if path in self.biases else 'weight'}" for name in names]
        return None


@dataclass(slots=True)
class Member:
    """A layer of the engine (or a class of the adapter's own) as an attribute of a class.

    Attributes:
        path: its place in the module tree.
        factory: the class or function that makes it.
        args, kwargs: what it is constructed with.
        returns: ``tensor``; ``pair`` (a linear layer's output and bias); ``residual`` (a norm that also adds).
        where: the source line it stands for.
        when: the layers that have it, if not all do.
        sources: paths of the source's modules whose parameters it holds, in the order of its shards.
        apart: how experts are taken apart in loading, if they are.
        tensors: setting -> path of the source's parameter behind it, where that setting is an `Own`, or the bias of a
            linear layer that another module holds.
    """

    path: str
    factory: str
    args: list[Value]
    kwargs: dict[str, Value]
    where: Location
    returns: str = "tensor"
    when: Expr | None = None
    sources: list[str] = field(default_factory=list)
    tensors: dict[str, str] = field(default_factory=dict)
    apart: Apart | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Regroup:
    """How the rows of a fused weight lie in the checkpoint, where that is not how the engine wants them.

    The rows are ``groups`` groups; each holds ``sizes[i]`` rows of part ``order[i]``. The engine wants all rows of part
    0, then all of part 1, and so on. ``heads`` are the numbers of query and of key-value heads where each group is a
    key-value head with its queries, its key and its value.
    """

    path: str
    groups: int
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    heads: tuple[Value, Value] | None = None
