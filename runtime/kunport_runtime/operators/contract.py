"""What an operator is: its arguments, limits and tolerance, how to draw inputs for it, and what it computes.

A contract is one file in a folder by family. Its docstring is its page of the reference; ``CONTRACT`` holds the rest:

- *arguments*: tensors with named dimensions (`reads`, `writes`, `updates`, `fills`) and options (`option`). An
  implementation takes all of them by keyword and returns nothing: results go into tensors that the caller allocated.
- *layout*: the last dimension of a tensor has stride 1, every other stride is free, unless it is declared contiguous.
  Implementations take strides; a slice of a packed projection is an argument like any other.
- *numbers that are absent* are 0 (``window=0``), because custom operators of older torch cannot say ``int | None``.
- *limits* on sizes, dtypes and options; a provider's implementation adds its own.
- *tolerance* per dtype, with the reason for the number.
- *cases*: seeded inputs over the shapes and layouts that matter, which every implementation is judged by.
- *reference*: what the operator computes, in torch, and the implementation of the provider ``torch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from kunport_runtime.operators.dimensions import Dimension, parse_shape
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.tolerance import Tolerance

if TYPE_CHECKING:
    from kunport_runtime.operators.draw import Draw

FLOATS = ("float32", "float16", "bfloat16")
FP8 = ("float8_e4m3fn", "float8_e5m2")
INDICES = ("int64", "int32")

Role = Literal["reads", "writes", "updates", "fills"]


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor among an operator's arguments.

    Attributes:
        name: its keyword.
        shape: its dimensions; the same name is the same size in every argument.
        role: ``reads``; ``writes`` (every element that the operator defines, whatever was there before); ``updates``
            (read and overwritten); ``fills`` (written in part and never read: a second run changes nothing).
        dtypes: what it may hold.
        like: the argument whose dtype it must have; "" for any of ``dtypes``.
        optional: whether it may be None.
        contiguous: whether every stride is fixed, not only the last.
        may_be: of a written tensor: the argument that it may share its memory with, element by element.
        on_host: whether it lies in the host's memory whatever the device.
        meaning: for the reference.
    """

    name: str
    shape: tuple[Dimension, ...]
    role: Role
    dtypes: tuple[str, ...]
    like: str
    optional: bool
    contiguous: bool
    may_be: str
    on_host: bool
    meaning: str


def _tensor(role: Role) -> Callable[..., TensorArgument]:
    def argument(
        name: str,
        shape: str,
        meaning: str = "",
        *,
        dtypes: tuple[str, ...] = FLOATS,
        like: str = "",
        optional: bool = False,
        contiguous: bool = False,
        may_be: str = "",
        on_host: bool = False,
    ) -> TensorArgument:
        return TensorArgument(
            name, parse_shape(shape), role, dtypes, like, optional, contiguous, may_be, on_host, meaning
        )

    return argument


reads, writes, updates, fills = (_tensor(role) for role in ("reads", "writes", "updates", "fills"))


@dataclass(frozen=True, slots=True)
class Option:
    """An argument that is no tensor: a number, a word, a flag.

    Attributes:
        name: its keyword.
        kind: float, int, bool, str or tuple (of ints).
        default: its value where the caller gives none; `REQUIRED` where the caller must.
        choices: of a word: all that there are.
        meaning: for the reference.
    """

    name: str
    kind: type
    default: object
    choices: tuple[object, ...]
    meaning: str


REQUIRED = object()


def option(
    name: str, kind: type, meaning: str, *, default: object = REQUIRED, choices: tuple[object, ...] = ()
) -> Option:
    """An option; without a default the caller must give it."""
    return Option(name, kind, default, choices, meaning)


Argument = TensorArgument | Option


@dataclass(frozen=True, slots=True)
class Case:
    """One input that an implementation is judged by.

    Attributes:
        label: what is particular about it, for messages.
        arguments: every argument by name; outputs are poisoned.
    """

    label: str
    arguments: dict[str, object]


@dataclass(frozen=True)
class Contract:
    """An operator. See the module.

    Attributes:
        name: of the operator.
        arguments: in the order of the documentation.
        reference: computes the operator on tensors of any device, by keyword; float64 stays float64, so that it can
            be compared with formulas in that precision.
        cases: draws inputs in the dtype that it is given.
        tolerance: dtype of ``dtype_of`` -> how far a result may be from the reference's. Integers must be equal.
        dtype_of: the argument whose dtype is "the operator's dtype".
        limits: that hold for every implementation.
        doc: its documentation.
        family: the folder it is in.
    """

    name: str
    arguments: tuple[Argument, ...]
    reference: Callable[..., None]
    cases: Callable[[Draw], Iterator[Case]]
    tolerance: Mapping[str, Tolerance]
    dtype_of: str
    limits: tuple[Limit, ...] = ()
    doc: str = ""
    family: str = field(default="own", compare=False)

    @cached_property
    def tensors(self) -> dict[str, TensorArgument]:
        """The tensors by name."""
        return {each.name: each for each in self.arguments if isinstance(each, TensorArgument)}

    @cached_property
    def options(self) -> dict[str, Option]:
        """The options by name."""
        return {each.name: each for each in self.arguments if isinstance(each, Option)}

    @cached_property
    def outputs(self) -> tuple[TensorArgument, ...]:
        """What the operator writes whole, and a caller may leave away."""
        return tuple(each for each in self.tensors.values() if each.role == "writes")

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The names of all tensors that hold something else after a call."""
        return tuple(name for name, each in self.tensors.items() if each.role != "reads")

    @cached_property
    def updated(self) -> tuple[str, ...]:
        """The names of the tensors that a second run of the same call would change again."""
        return tuple(name for name, each in self.tensors.items() if each.role == "updates")

    @cached_property
    def defaults(self) -> dict[str, object]:
        """Option -> its value where the caller gives none; optional tensors are None."""
        absent: dict[str, object] = {name: None for name, each in self.tensors.items() if each.optional}
        return absent | {name: each.default for name, each in self.options.items() if each.default is not REQUIRED}
