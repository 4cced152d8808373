"""Which axes of a source tensor are batch and sequence, and where the others go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kunport_codegen.expression import Expr, Scalar, const, fields_of, symbols_of, unwrap
from kunport_codegen.lowering.errors import RefusedError
from kunport_codegen.lowering.flow import Layout, Size
from kunport_codegen.recognition.states.tokens import counts_tokens

# An axis' role: ``b`` batch (or a 1 that stands for it), ``s`` sequence, ``t`` both in one, None anything else.
Role = str | None


@dataclass(frozen=True, slots=True)
class Axes:
    """A source tensor's shape and the role of each axis."""

    shape: tuple[Size, ...]
    roles: tuple[Role, ...]

    @property
    def layout(self) -> Layout:
        tokens = "s" in self.roles or "t" in self.roles
        return Layout(tokens, tuple(size for size, role in zip(self.shape, self.roles, strict=True) if role is None))

    def normal(self, axis: object) -> int:
        """An axis number as Python counts from the front."""
        number = unwrap(axis)
        if not isinstance(number, int):
            raise RefusedError(f"axis {axis!r} is not a number")
        return number % max(len(self.shape), 1)

    def flat(self, axis: object) -> int:
        """Where an axis is after flattening, counted from the end. Refused for the batch and the sequence."""
        normal = self.normal(axis)
        if self.roles[normal] is not None:
            raise RefusedError("it computes across tokens, and the engine keeps sequences apart only in attention")
        return -1 - sum(role is None for role in self.roles[normal + 1 :])


def axes_of(shape: Sequence[Size] | None, hints: Sequence[Role] = ()) -> Axes:
    """Roles from the sizes' symbols. ``hints`` (aligned at the end) tell which axes of size 1 stand for the batch."""
    if shape is None:
        raise RefusedError("its shape is not known")
    padded = [None] * (len(shape) - len(hints)) + list(hints)
    roles = tuple(_role(size, hint) for size, hint in zip(shape, padded[len(padded) - len(shape) :], strict=True))
    if sum(role in ("s", "t") for role in roles) > 1 or sum(role in ("b", "t") for role in roles) > 1:
        raise RefusedError("it has two axes over tokens: tokens of one sequence meet outside of attention")
    if "b" in roles and not ("s" in roles or "t" in roles):
        if any(role == "b" and unwrap(size) != 1 for size, role in zip(shape, roles, strict=True)):
            raise RefusedError("it has a value for each sequence, not for each token")
        roles = (None,) * len(roles)
    return Axes(tuple(shape), roles)


# Fields that bound how long a sequence may be, for the engine as for the source.
_BOUNDS = frozenset(("n_positions", "n_ctx", "max_position_embeddings"))


def is_sequence(size: object) -> bool:
    """Whether a size is the number of tokens of a sequence."""
    return isinstance(size, Scalar) and _plain(size).expr == Expr("symbol", ("sequence",))


def _plain(size: Scalar) -> Scalar:
    """``batch * heads // heads`` is the batch; ``sequence + 0``, or under a bound it has anyway, the sequence."""
    expr, args = size.expr, size.expr.args
    if expr.op == "floordiv" and isinstance(args[0], Expr) and args[0].op == "mul" and args[0].args[1] == args[1]:
        return Scalar(size.value, args[0].args[0])
    if expr.op == "add" and const(0) in args:
        return Scalar(size.value, args[0] if args[1] == const(0) else args[1])
    if expr.op == "min" and isinstance(args[1], Expr) and fields_of(args[1]) <= _BOUNDS and not symbols_of(args[1]):
        return Scalar(size.value, args[0])
    return size


def _role(size: Size, hint: Role) -> Role:
    size = _plain(size) if isinstance(size, Scalar) and symbols_of(size.expr) else size
    symbols = symbols_of(size.expr) if isinstance(size, Scalar) else set()
    if not symbols:
        return "b" if hint == "b" and unwrap(size) == 1 else None
    if not isinstance(size, Scalar):
        return None
    if size.expr.op == "symbol" and symbols == {"batch"}:
        return "b"
    if counts_tokens(size.expr):
        return "s"
    if symbols == {"batch", "sequence"} and size.expr.op == "mul":
        return "t"
    raise RefusedError(f"a size of it depends on the input in its own way ({size.expr})")
