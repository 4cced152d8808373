"""The working form of lowering: operators in order over values, on flattened tokens.

A flow starts as the graph's operators with what recognition found put in place of the nodes it covers, and passes
rewrite it until each operator is either a call of an engine layer or plain torch. In the engine all
sequences of a step lie behind one another, so a value is ``[tokens, ...]`` where the source has
``[batch, sequence, ...]`` or ``[batch, heads, sequence, ...]``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kunport_codegen.expression import Expr, Scalar, const
from kunport_codegen.facts import Number
from kunport_codegen.graph import LEAVES, Arg, DType, Graph, Guard, Location, Ref, refs
from kunport_codegen.lowering.errors import LoweringError, Refusal
from kunport_codegen.lowering.members import Member, Regroup

Size = int | Scalar

# Values that no node makes: the tokens' positions in their sequences, and the residual before the first layer.
POSITIONS = -1
NO_RESIDUAL = -2


@dataclass(frozen=True, slots=True)
class Layout:
    """The shape of a value: whether it has a token axis, which then leads, and the sizes of the other axes."""

    tokens: bool
    sizes: tuple[Size, ...]


@dataclass(slots=True)
class Op:
    """One step.

    Attributes:
        name: torch's name for it; ``call`` (of ``member``); ``view`` (the layout of the result says which); or a
            recognised operator that its pass has yet to place (``Norm``, ``Rope``, ``Attention``, ``Experts``,
            ``StateOperator``).
        args, kwargs: as a graph node's, naming values by `Ref`.
        results: ids of the values made.
        owner: path of the module in whose forward the step happens.
        where: source line.
        member: the layer called.
        fact: what recognition knows about a recognised operator.
        origin: path of the module in whose forward the source does it, if that module has no class of its own here.
        instead: for a step into a module, what other layers enter in its place: on which condition, and that step.
    """

    name: str
    args: tuple[Arg, ...]
    kwargs: dict[str, Arg]
    results: list[int]
    owner: str
    where: Location
    member: Member | None = None
    fact: Any = None
    origin: str = ""
    instead: list[tuple[Expr, Op]] = field(default_factory=list)

    def inputs(self) -> list[int]:
        """The values it reads, in order of its arguments."""
        found: list[int] = []
        _gather(self.args, found)
        if self.kwargs:
            _gather(self.kwargs, found)
        return found


@dataclass(slots=True)
class Flow:
    """Operators in order, what is known of the values between them, and what passes found out.

    Attributes:
        layouts, dtypes: by value.
        aliases: value that is gone -> the value that took its place.
        output: the logits.
        names: what a value is best called, where a pass knows.
        heads: how many heads of what size a projected query, key or value has, over all ranks.
        sharded: values of which each tensor-parallel rank holds a part, along the axis after the tokens.
        regroups: how rows of a checkpoint's weight are put in the engine's order.
        transposed: paths of weights that lie as ``[inputs, outputs]`` in the checkpoint.
        biases: path of a parameter -> that of the linear layer of which it is the bias, where that is another module's.
        spread: paths of modules that have no class of their own here: the module around each does their work.
        shapes: of values that passes add before the tokens are flattened; the graph has the others.
        whole: why the model only runs on one tensor-parallel rank, if so.
        guards: what must hold of a configuration because a pass took it for granted.
        refusals: why the model cannot be lowered; empty if it can.
    """

    graph: Graph
    ops: list[Op]
    output: int
    layouts: dict[int, Layout] = field(default_factory=dict)
    dtypes: dict[int, DType | None] = field(default_factory=dict)
    aliases: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    heads: dict[int, tuple[Number, Number]] = field(default_factory=dict)
    sharded: set[int] = field(default_factory=set)
    regroups: list[Regroup] = field(default_factory=list)
    transposed: set[str] = field(default_factory=set)
    biases: dict[str, str] = field(default_factory=dict)
    spread: set[str] = field(default_factory=set)
    shapes: dict[int, tuple[Size, ...] | None] = field(default_factory=dict)
    whole: list[Refusal] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    free: int = 0

    def refuse(self, op: Op, reason: str) -> None:
        self.refusals.append(Refusal(op.where, op.name, reason))

    def hold(self, numbers: Iterable[Any], where: Location) -> None:
        """Hold the configuration to what these numbers are now: they were written down."""
        held = (number for number in numbers if isinstance(number, Scalar))
        self.guards += [Guard(Expr("eq", (number.expr, const(number.value))), True, where) for number in held]

    def fresh(self, layout: Layout, dtype: DType | None) -> int:
        """A new value."""
        value = self.free
        self.free += 1
        self.layouts[value] = layout
        self.dtypes[value] = dtype
        return value

    def resolve(self, value: int) -> int:
        while value in self.aliases:
            value = self.aliases[value]
        return value

    def producers(self) -> dict[int, Op]:
        """Value -> the operator that makes it."""
        return {result: op for op in self.ops for result in op.results}

    def users(self) -> dict[int, list[Op]]:
        """Value -> the operators that read it, in order, each once."""
        users: dict[int, list[Op]] = {}
        for op in self.ops:
            for value in dict.fromkeys(op.inputs()):
                users.setdefault(value, []).append(op)
        return users

    def call(self, op: Op, member: Member, args: tuple[Arg, ...], results: list[int]) -> Op:
        """The operator as a call of a layer, which becomes an attribute of the module that holds it."""
        return Op("call", args, {}, results, parent(member.path), op.where, member)

    def settle(self) -> None:
        """Put replacements in place, drop what nothing reads any more and order operators after what they read."""
        self.output = self.resolve(self.output)
        for op in self.ops if self.aliases else ():
            if not self.aliases.keys().isdisjoint(op.inputs()):
                op.args = substitute(op.args, self.resolve)
                op.kwargs = substitute(op.kwargs, self.resolve)
        self.ops = ordered(needed(self.ops, self.output))


def _gather(value: Arg, found: list[int]) -> None:
    """`refs` into a list: passes ask for inputs too often for a generator at each level."""
    if type(value) is tuple:
        for item in value:
            kind = type(item)
            if kind is Ref:
                found.append(item.id)
            elif kind not in LEAVES:
                _gather(item, found)
    else:
        found.extend(refs(value))


def substitute(value: Arg, resolve: Any) -> Any:
    """An argument with every reference replaced by what ``resolve`` (id -> id) makes of it."""
    if isinstance(value, Ref):
        return Ref(resolve(value.id))
    if isinstance(value, list):
        return [substitute(item, resolve) for item in value]
    if isinstance(value, tuple):
        return tuple(substitute(item, resolve) for item in value)
    if isinstance(value, dict):
        return {key: substitute(item, resolve) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(substitute(item, resolve) for item in (value.start, value.stop, value.step)))
    return value


def needed(ops: Iterable[Op], output: int) -> list[Op]:
    """The operators that the output depends on, in the order given."""
    producers = {result: op for op in ops for result in op.results}
    wanted: set[int] = set()
    pending = [output]
    while pending:
        op = producers.get(pending.pop())
        if op is not None and id(op) not in wanted:
            wanted.add(id(op))
            pending.extend(op.inputs())
    return [op for op in ops if id(op) in wanted]


def ordered(ops: list[Op]) -> list[Op]:
    """The operators in an order in which each comes after those it reads, changed as little as can be.

    Raises:
        LoweringError: there is none, because a module that is called once reads what is made of its own results.
    """
    producers = {result: op for op in ops for result in op.results}
    if _is_ordered(ops, producers):
        return ops
    done: set[int] = set()
    waiting: set[int] = set()
    result: list[Op] = []
    for first in ops:
        stack = [first]
        while stack:
            op = stack[-1]
            if id(op) in done:
                stack.pop()
                continue
            missing = [producers[v] for v in op.inputs() if v in producers and id(producers[v]) not in done]
            if missing and id(op) in waiting:
                reason = "its module is left and entered again, and one call cannot stand for both"
                raise LoweringError([Refusal(op.where, op.name, reason)])
            if missing:
                waiting.add(id(op))
                stack.extend(reversed(missing))
            else:
                done.add(id(op))
                result.append(op)
                stack.pop()
    return result


def _is_ordered(ops: list[Op], producers: dict[int, Op]) -> bool:
    """Whether each operator comes after those it reads already, as most passes leave them."""
    made: set[int] = set()
    for op in ops:
        if any(value in producers and value not in made for value in op.inputs()):
            return False
        made.update(op.results)
    return True


def layer_of(path: str) -> tuple[str, int] | None:
    """(path of the module list, index) of the first numbered module on a path: ``model.layers.3.mlp`` -> its layer."""
    parts = path.split(".")
    for position, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[:position]), int(part)
    return None


def parent(path: str) -> str:
    return path.rpartition(".")[0]


def basename(path: str) -> str:
    return path.rpartition(".")[2]
