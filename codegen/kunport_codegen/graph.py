"""The model graph: what a model's source computes, one operator a node, each with its source line.

A graph is a flat list of nodes in execution order. Nodes name the tensors they read by the id of
the node that made them. *Frames* say which call a node belongs to (a module's forward or a
function), and *modules* describe the tree that the model's constructor built.

The graph is functional: an in-place operator of the source is a node whose result replaces the
old value from then on. Everything a node needs in order to be executed is in the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kunport_codegen.expression import Expr, Scalar


@dataclass(frozen=True, slots=True)
class Location:
    """A place in model source: file as named by the analysis (relative where it can be), 1-based line."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to the tensor that a node makes."""

    id: int

    def __repr__(self) -> str:
        return f"%{self.id}"


@dataclass(frozen=True, slots=True)
class DType:
    """A tensor type: ``model`` (whatever the checkpoint is loaded in) or torch's own name, such as ``float32``."""

    name: str


# What may stand in a node's arguments: Ref, Scalar, DType, plain Python scalars, strings, None, Ellipsis, slices,
# and lists, tuples and dictionaries of these.
Arg = Any
# The types of those that hold no others.
LEAVES = frozenset((int, str, float, bool, type(None), Scalar, DType))


@dataclass(slots=True)
class Node:
    """One operator.

    Operands are in written form: required ones by position, optional ones by name, and left out where they have
    torch's default; an operator that changes nothing (``contiguous``, dropout) leaves no node. Matchers rely on this.

    Attributes:
        id: unique in the graph, loop bodies included.
        op: torch's name for the operator, function and method forms merged (``add``, ``matmul``,
            ``reshape``, ``linear``, ``to``), or one of the graph's own:

            - ``input``: args ``(name,)``; the token ids are ``input_ids``, ``[batch, sequence]``
            - ``parameter``: args ``(path,)``, a parameter or saved buffer of the module tree
            - ``state``: args ``(path,)``, what an earlier run left in the cache at a path such as ``layers[0].keys``
            - ``mask``: args ``(kind, window)``, the additive attention mask ``[batch, 1, query, key]`` of a kind:
              ``causal``, ``sliding`` (the last ``window`` keys, the query's own included), ``chunked`` or
              ``bidirectional``; queries and keys are the last ones of all tokens so far
            - ``item``: args ``(Ref, index)``, one result of an operator with several
            - ``loop``: args ``(Ref to the iterated tensor,)`` with a ``body``; its results are its carried values
            - ``unknown``: args ``(reason,)`` and then whatever operands are known
        args, kwargs: operands; see `Arg`.
        shape: sizes as plain ints or scalars, or None where not known; results of several tensors have None and
            are read through ``item`` nodes.
        dtype: of the result; None where there are several results.
        frame: id of the innermost frame.
        where: source line.
        body: the loop's body.
        contiguous: the source lays the result out in memory anew. That changes no value, but in which order a later
            sum adds up; what compares sums to the last bits needs to know.
    """

    id: int
    op: str
    args: tuple[Arg, ...]
    kwargs: dict[str, Arg]
    shape: tuple[int | Scalar, ...] | None
    dtype: DType | None
    frame: int
    where: Location
    body: Body | None = None
    contiguous: bool = False


@dataclass(slots=True)
class Body:
    """A loop body, run once for each row of the iterated tensor.

    ``variable`` is the id that stands for the row inside ``nodes``. ``carried`` lists, for each value
    that the body replaces, (id inside the body at its start, value before the first turn, value
    after a turn); the loop's ``item`` k is the k-th of them after the last turn. ``skip`` names a
    boolean tensor: a turn in which it is true changes nothing. Where the rows are whole numbers
    (a loop over positions), the symbol ``turn_VARIABLE`` is the row's number in scalars of the body.
    A list that each turn appends a tensor to is one tensor, of which ``stack`` and ``cat`` join the rows.
    """

    variable: int
    nodes: list[Node]
    carried: list[tuple[int, Arg, Arg]]
    skip: Ref | None = None


@dataclass(slots=True)
class Frame:
    """A call: of a module's forward (``kind`` "module", ``path`` its place in the tree) or of a function.

    ``inputs`` are the bound parameters in order, ``output`` what it returned (tensors as Ref, in
    tuples or dictionaries as the source had them). Frame 0 is the constructor, frame 1 the model.
    """

    id: int
    parent: int | None
    kind: str
    name: str
    path: str
    where: Location
    inputs: dict[str, Arg] = field(default_factory=dict)
    output: Arg = None


@dataclass(slots=True)
class Module:
    """A module of the tree: ``cls`` is the source's class, or the leaf's (``Linear``, ``Embedding``, ``LayerNorm``).

    ``leaf`` is the torch.nn class at the root of it, if that class computes (``Linear``), else None. ``attributes``
    are the plain values and scalars that its constructor stored (``head_dim``, ``eps``, ``scaling``) or, for leaves,
    was called with. ``where`` is the line of its class, ``made`` the one that made it. ``parameters`` are names of its
    own tensors, ``floats`` the plain ones among the arguments that the source builds it with: a constant of an
    attribute that is not among them is the class's own default.
    """

    path: str
    cls: str
    leaf: str | None
    where: Location
    attributes: dict[str, Any] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    floats: tuple[float, ...] = ()
    made: Location | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tensor of the state: shape ``[...]`` with scalars, dtype, and whether it is a parameter or a saved buffer.

    ``initial`` is the node by which the constructor computes a saved buffer, where the graph takes that for its value.
    """

    path: str
    shape: tuple[int | Scalar, ...]
    dtype: DType
    buffer: bool = False
    initial: int | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """A decision taken on the configuration: the graph holds while ``expr`` evaluates to ``outcome``."""

    expr: Expr
    outcome: Any
    where: Location


@dataclass(frozen=True, slots=True)
class Choice:
    """Lines of a file, ``first`` to ``last``, that run as they do because of the values of configuration fields.

    They are a branch that was taken, what follows one that would have returned, or a statement that looks something up
    by the name that a field gives. ``either`` are names that other lines of the function use, too.
    """

    fields: tuple[str, ...]
    file: str
    first: int
    last: int
    either: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rename:
    """How a tensor of the checkpoint reaches the module tree. A name that no rename mentions is the same in both.

    ``sources`` are patterns of checkpoint keys and ``target`` the module path's pattern; ``*`` stands for a number and
    matches in order. A last ``*`` that the target lacks gathers several tensors, in the order of their numbers.
    ``operations`` say what happens in between, in order:

    - ``stack``: what a source gathers becomes a leading dimension
    - ``concatenate:DIM``: all that is left, in the order of ``sources`` and of the numbers
    - ``chunk:DIM,INDEX,COUNT``: the part INDEX (from 0) of COUNT equal ones; other renames take the other parts
    - ``deinterleave:DIM``: the even positions, then the odd ones
    - ``transpose:A,B``: the two dimensions exchanged
    - ``unknown:WHAT``: an operation of Transformers that has no name here
    """

    sources: tuple[str, ...]
    target: str
    operations: tuple[str, ...] = ()


@dataclass(slots=True)
class Graph:
    """A model as its source computes it under one configuration.

    Attributes:
        architecture: the class that was analysed, such as ``Olmo2ForCausalLM``.
        model_type: the configuration's.
        config: the effective configuration as plain data (defaults and derived fields filled in).
        nodes: operators, in order. ``output`` is the logits.
        frames, modules: by id and by path; the root module has path "".
        parameters: every tensor of the state, by path.
        tied: pairs (path, path it shares its tensor with).
        guards: decisions that the configuration took.
        choices: the lines that such decisions chose.
        counters: the lines of the constructor that run as often as fields of the configuration say.
        derived: fields of the configuration that its class computes, with those that it computes them from.
        renames: how checkpoint names differ from module names.
        sources: file -> SHA-256 of its bytes, of every file read.
        notes: what the analysis wants a reader to know (a branch not taken on a size, say).
        sizes: decisions taken on sizes: the graph holds for inputs of which they are true.
        states: what the run leaves in the cache, by path; empty where it was read without one.
        ignored: regular expressions of checkpoint keys that loading leaves aside where the model has no place for them;
            they are searched for in a key, and come from the source as they are.
    """

    architecture: str
    model_type: str
    config: dict[str, Any]
    nodes: list[Node] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    modules: dict[str, Module] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    tied: list[tuple[str, str]] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    counters: list[Choice] = field(default_factory=list)
    derived: dict[str, frozenset[str]] = field(default_factory=dict)
    renames: list[Rename] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    sizes: list[Guard] = field(default_factory=list)
    states: dict[str, Arg] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    output: Arg = None

    def unknowns(self) -> list[Node]:
        """The nodes that the analysis did not understand, in order."""
        return [node for node in self.walk() if node.op == "unknown"]

    def walk(self) -> Iterator[Node]:
        """Every node, those of loop bodies after their loop."""
        yield from _walk(self.nodes)


def _walk(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if node.body is not None:
            yield from _walk(node.body.nodes)


def refs(value: Arg) -> Iterator[int]:
    """The ids of all tensors named in an argument, in order."""
    found: list[int] = []
    _collect((value,), found)
    return iter(found)


def _collect(values: Iterable[Arg], found: list[int]) -> None:
    """Asked for every node several times over, so it makes no generators and enters containers alone."""
    for value in values:
        kind = type(value)
        if kind is Ref:
            found.append(value.id)
        elif kind in LEAVES:
            continue
        elif isinstance(value, (list, tuple)):
            _collect(value, found)
        elif isinstance(value, dict):
            _collect(value.values(), found)
        elif isinstance(value, slice):
            _collect((value.start, value.stop, value.step), found)
