"""What a name of model source can stand for while the source is interpreted.

Plain Python values stand for themselves: numbers, strings, None, tuples, lists, dictionaries, slices, and `DType`.
Numbers that come from the configuration or from run-time sizes are `Scalar`. Everything else is one of the classes
here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kunport_codegen.graph import Location

from kunport.analysis.shapes import TensorType

if TYPE_CHECKING:
    from kunport.analysis.interpreter.scope import Scope
    from kunport.analysis.names import Namespace

Value = Any


@dataclass(slots=True, eq=False)
class Tensor:
    """A cell that holds a tensor: the id of the node that made it, replaced when the source writes in place.

    ``state`` says that a parameter or a saved buffer owns the cell. ``view`` is how it was cut from
    another cell, whose memory it shares. ``version`` counts the writes.
    """

    id: int
    type: TensorType
    state: State | None = None
    view: View | None = None
    version: int = 0


@dataclass(slots=True, eq=False)
class Unknown:
    """A value that the analysis does not know, made by node ``id``; operators on it make further unknown values."""

    id: int
    reason: str


@dataclass(slots=True)
class State:
    """What makes a tensor part of the checkpoint. ``path`` is known once the tree is named.

    ``initial`` is as `kunport_codegen.graph.Parameter` has it.
    """

    buffer: bool
    path: str = ""
    initial: int | None = None


@dataclass(slots=True)
class View:
    """How a tensor was cut from another one: ``op`` of ``base`` and ``args``, when ``base`` was at ``version``."""

    base: Tensor
    op: str
    args: tuple[Value, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Opaque:
    """A name that analysis cannot or will not look into; ``reason`` completes "NAME is ..."."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Device:
    """Where a tensor lives, as model source sees it."""

    type: str = "cpu"
    index: int | None = None


class OrderedSet(dict[Value, None]):
    """A set that keeps the order in which its items came, so that runs are alike."""

    def __init__(self, items: Iterable[Value] = ()) -> None:
        super().__init__(dict.fromkeys(items))

    def add(self, item: Value) -> None:
        self[item] = None

    def discard(self, item: Value) -> None:
        super().pop(item, None)

    def remove(self, item: Value) -> None:
        del self[item]

    def union(self, *others: Iterable[Value]) -> OrderedSet:
        return OrderedSet(item for items in (self, *others) for item in items)

    def issubset(self, others: Iterable[Value]) -> bool:
        return set(self) <= set(others)

    def issuperset(self, others: Iterable[Value]) -> bool:
        return set(self) >= set(others)

    def isdisjoint(self, others: Iterable[Value]) -> bool:
        return set(self).isdisjoint(others)

    def __or__(self, other: Any) -> Any:
        return self.union(other)

    def __and__(self, other: Any) -> Any:
        return OrderedSet(item for item in self if item in other)

    def __sub__(self, other: Any) -> Any:
        return OrderedSet(item for item in self if item not in other)


class Results(tuple[Value, ...]):
    """The results of an operator with several; those of sorting and of extremes also have names."""

    @property
    def values(self) -> Value:
        return self[0]

    @property
    def indices(self) -> Value:
        return self[1]


class FieldList(list[Value]):
    """A list read from the configuration at ``path``."""

    path: str = ""


class FieldDict(dict[Value, Value]):
    """A dictionary read from the configuration at ``path``."""

    path: str = ""


@dataclass(slots=True, eq=False)
class Span:
    """A ``range`` whose bounds follow from sizes; ``numbers`` is what it is at the sizes of the analysis."""

    bounds: tuple[Value, Value, Value]
    numbers: range


@dataclass(slots=True, eq=False)
class Stacked:
    """A list that a loop appended one tensor a turn to: ``rows`` ``[turns, ...]`` holds them."""

    rows: Tensor


@dataclass(slots=True, eq=False)
class Function:
    """A function or lambda of the source. ``kind``: ``function``, ``staticmethod``, ``classmethod`` or ``property``."""

    name: str
    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    owner: SourceClass | None = None
    kind: str = "function"
    setter: Function | None = None
    defaults: dict[str, Value] = field(default_factory=dict)
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Native:
    """A function that the analysis provides. It is called with the interpreter first.

    ``raw`` natives see scalars as they are; for others a scalar that is None, a boolean or a string is a decision
    taken on the configuration, and arrives plain. ``lazy`` natives do nothing: their arguments are not evaluated.
    """

    name: str
    call: Callable[..., Value]
    raw: bool = False
    lazy: bool = False
    classmethod: bool = False


@dataclass(slots=True, eq=False)
class Bound:
    """A function together with its first argument."""

    receiver: Value
    function: Value


@dataclass(slots=True, eq=False)
class Partial:
    function: Value
    args: tuple[Value, ...]
    kwargs: dict[str, Value]


@dataclass(slots=True, eq=False, repr=False)
class NativeClass:
    """A class that the analysis provides, or knows by name only (``reason`` says why)."""

    name: str
    bases: tuple[NativeClass, ...] = ()
    members: dict[str, Value] = field(default_factory=dict)
    reason: str = ""
    mro: list[Class] = field(init=False)

    def __post_init__(self) -> None:
        self.mro = linearize(self, self.bases)

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"<class {self.name}>"


@dataclass(slots=True, eq=False, repr=False)
class SourceClass:
    """A class of the source. Its members are parsed and evaluated when first asked for."""

    name: str
    node: ast.ClassDef
    scope: Scope
    bases: tuple[Class, ...]
    record: bool = False
    namespace: dict[str, Value] = field(default_factory=dict)
    mro: list[Class] = field(default_factory=list)
    members: dict[str, list[ast.stmt]] = field(default_factory=dict)

    @property
    def short(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<class {self.name}>"


Class = SourceClass | NativeClass


@dataclass(slots=True, eq=False)
class Instance:
    """An object.

    Attributes:
        items: those of a module container, a list or a dictionary.
        path: its place in the module tree, once that is named.
        partial: why its constructor did not run to its end, "" where it did.
        renamed: other names of its attributes (a configuration's ``attribute_map``).
        where: the line that made it.
        floats: the plain ones among the arguments that it was made with.
    """

    cls: Class
    attributes: dict[str, Value] = field(default_factory=dict)
    items: list[Value] | dict[str, Value] | None = None
    path: str | None = None
    partial: str = ""
    renamed: dict[str, str] | None = None
    where: Location | None = None
    floats: tuple[float, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.cls.short} {self.path or ''}>"


@dataclass(slots=True, eq=False)
class Super:
    """What ``super()`` gives: members of the classes after ``owner``."""

    owner: SourceClass
    receiver: Value


@dataclass(slots=True, eq=False)
class PythonModule:
    """A module of Python source that is a value."""

    namespace: Namespace


def linearize(cls: Class, bases: tuple[Class, ...]) -> list[Class]:
    """Python's method resolution order (C3).

    Raises:
        TypeError: the bases have no consistent order.
    """
    sequences = [list(base.mro) for base in bases] + [list(bases)]
    order: list[Class] = [cls]
    while sequences := [sequence for sequence in sequences if sequence]:
        for sequence in sequences:
            head = sequence[0]
            if not any(head in other[1:] for other in sequences):
                break
        else:
            raise TypeError(f"the bases of {cls.name} have no consistent order")
        order.append(head)
        for sequence in sequences:
            if sequence[0] is head:
                del sequence[0]
    return order


MODULE = "torch.nn.Module"


def is_subclass(cls: Class, name: str) -> bool:
    """Whether a class named ``name`` (dotted for native classes) is among the ancestors of ``cls``."""
    return any(ancestor.name == name for ancestor in cls.mro)
