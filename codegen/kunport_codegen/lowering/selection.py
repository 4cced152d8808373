"""How values that differ from layer to layer follow from the configuration and the layer's index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kunport_codegen.expression import Expr, Scalar, const, evaluate
from kunport_codegen.graph import Graph, Guard
from kunport_codegen.lowering.flow import layer_of
from kunport_codegen.lowering.members import Choice, Value

LAYER = "layer_idx"
# Fields that say how many layers there are, as configurations name them.
COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")


_NOTHING = "layers differ, and no field of the configuration says which is which"


class DifferentLayersError(Exception):
    """Layers differ in a way that nothing in the configuration tells apart."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An expression on the layer's index, and what it is for each layer."""

    expr: Expr
    values: tuple[Any, ...]


class Selector:
    """Finds expressions on ``layer_idx`` for values given by layer, of all ``count`` or of those with some numbers."""

    def __init__(
        self, graph: Graph, count: int, numbers: Sequence[int] | None = None, guards: list[Guard] | None = None
    ) -> None:
        self.graph = graph
        self.guards = [] if guards is None else guards
        self.count = count
        self.numbers = range(count) if numbers is None else numbers
        self.candidates = list(self._candidates())

    def of(self, places: Sequence[int]) -> Selector:
        """The same for those at some places among these layers."""
        return Selector(self.graph, self.count, [self.numbers[place] for place in places], self.guards)

    def merge(self, values: Sequence[Value]) -> Value:
        """One constructor argument for all layers.

        Raises:
            DifferentLayersError: the values differ, and nothing says by what.
        """
        if all(same(value, values[0]) for value in values):
            return values[0]
        if all(isinstance(value, Scalar | Expr) for value in values):
            merged = generalize([expression(value) for value in values], self.numbers) or self._by_key(values)
            if merged is not None:
                return merged
        if all(isinstance(value, bool) for value in values):
            truth = [bool(value) for value in values]
            whether = self._by_field(truth) or self._by_list(truth)
            if whether is not None:
                return whether
        distinct: list[Value] = []
        for value in values:
            if not any(same(value, known) for known in distinct):
                distinct.append(value)
        if (listed := self._listed(values, distinct)) is not None:
            return listed
        result = distinct[-1]
        for value in reversed(distinct[:-1]):
            truth = [same(value, other) for other in values]
            test = self._by_field(truth) or self._by_list(truth)
            if test is None:
                raise DifferentLayersError(_NOTHING)
            result = Choice(test, value, result)
        return result

    def _listed(self, values: Sequence[Value], distinct: Sequence[Value]) -> Expr | None:
        """A list of numbers with an item a layer: what the source computes of the layer's index by a formula."""
        counts = [name for name in COUNTS if self.graph.config.get(name) == self.count]
        if len(distinct) < 3 or len(values) != self.count or not counts:
            return None
        if any(type(value) is not float or self._by_field([same(value, each) for each in values]) for value in values):
            return None
        count = Expr("eq", (Expr("field", (counts[0],)), const(self.count)))
        self.guards.append(Guard(count, True, self.graph.modules[""].where))
        return Expr("item", (Expr("const", (tuple(values),)), shifted(0)))

    def test(self, truth: Sequence[bool]) -> Expr:
        """A condition that holds for just the layers that have something, for which ``truth`` is true.

        Raises:
            DifferentLayersError: nothing in the configuration says which they are.
        """
        found = self._by_field(truth) or self._by_number(truth) or self._by_list(truth)
        if found is None:
            raise DifferentLayersError(_NOTHING)
        return found

    def _by_field(self, truth: Sequence[bool]) -> Expr | None:
        """A condition on what the configuration says of a layer."""
        for candidate in self.candidates:
            if all(isinstance(value, bool | int) for value in candidate.values) and [
                bool(value) for value in candidate.values
            ] == list(truth):
                return _condition(candidate.expr)
            chosen = {value for value, wanted in zip(candidate.values, truth, strict=True) if wanted}
            if len(chosen) == 1 and [value in chosen for value in candidate.values] == list(truth):
                return Expr("eq", (candidate.expr, const(chosen.pop())))
            others = {value for value, wanted in zip(candidate.values, truth, strict=True) if not wanted}
            if len(others) == 1 and [value not in others for value in candidate.values] == list(truth):
                return Expr("ne", (candidate.expr, const(others.pop())))
        return None

    def _by_number(self, truth: Sequence[bool]) -> Expr | None:
        """A condition on the layer's number alone, where it is true of the first one or follows a list that repeats.

        With more layers or fewer it might be another, so that their number is guarded.
        """
        counts = [name for name in COUNTS if self.graph.config.get(name) == self.count]
        if not counts:
            return None
        found = None
        if self.numbers[0] == 0 and truth[0] and not any(truth[1:]):
            found = Expr("eq", (shifted(0), const(0)))
        for name, items in self.graph.config.items():
            if (
                found is None
                and isinstance(items, list | tuple)
                and 1 < len(items) < self.count
                and name.isidentifier()
            ):
                kinds = [items[number % len(items)] for number in self.numbers]
                chosen = {kind for kind, wanted in zip(kinds, truth, strict=True) if wanted}
                if len(chosen) == 1 and [kind in chosen for kind in kinds] == list(truth):
                    path = f"{name}[{LAYER} % {len(items)}]"
                    found = Expr("eq", (Expr("field", (path,)), const(chosen.pop())))
        if found is not None:
            count = Expr("eq", (Expr("field", (counts[0],)), const(self.count)))
            self.guards.append(Guard(count, True, self.graph.modules[""].where))
        return found

    def _by_list(self, truth: Sequence[bool]) -> Expr | None:
        """The layers' numbers, where the source decides by layer and no one expression says which layers are meant.

        Guards hold the configuration to each decision, and to as many layers.
        """
        deciding = [guard for guard in self.graph.guards if any(True for _ in indexed(guard.expr))]
        if not deciding:
            return None
        for name in [name for name in COUNTS if self.graph.config.get(name) == self.count][:1]:
            count = Expr("eq", (Expr("field", (name,)), const(self.count)))
            self.guards.append(Guard(count, True, deciding[0].where))
        return _numbered(truth, self.numbers)

    def _candidates(self) -> Iterable[Candidate]:
        for expr in dict.fromkeys(self._declared()):
            try:
                values = tuple(self.value(expr, index) for index in self.numbers)
            except (LookupError, TypeError, ValueError, ArithmeticError):
                continue
            if len(set(map(repr, values))) > 1 and all(isinstance(value, bool | int | str) for value in values):
                yield Candidate(expr, values)

    def _declared(self) -> Iterable[Expr]:
        """What the source decides on by layer: attributes of modules, guards, then lists with an item a layer."""
        attributes: dict[tuple[str, str], dict[int, Expr]] = {}
        for path, module in self.graph.modules.items():
            layer = layer_of(path)
            for name, value in module.attributes.items() if layer is not None else ():
                if isinstance(value, Scalar) and layer is not None:
                    inside = path.removeprefix(f"{layer[0]}.{layer[1]}")
                    attributes.setdefault((inside, name), {})[layer[1]] = value.expr
        guards: dict[object, list[Expr]] = {}
        for guard in self.graph.guards:
            for general in indexed(guard.expr):
                guards.setdefault((guard.where, general), []).append(guard.expr)
        for by_layer in attributes.values():
            yield from self._general([by_layer[index] for index in sorted(by_layer)])
        for expressions in guards.values():
            yield from self._general(sorted(expressions, key=_numbers))
        for name, value in self.graph.config.items():
            if isinstance(value, list | tuple) and len(value) == self.count and name.isidentifier():
                yield Expr("field", (f"{name}[{LAYER}]",))

    def _general(self, expressions: list[Expr]) -> Iterable[Expr]:
        """One expression for those of all layers, in order, if they follow the index."""
        general = generalize(expressions) if len(expressions) == self.count else None
        if general is not None and LAYER in str(general):
            yield general

    def value(self, expr: Expr, index: int) -> Any:
        """The expression's value for one layer."""
        return evaluate(expr, lambda path: read(self.graph.config, path.replace(LAYER, str(index))), {LAYER: index})

    def _by_key(self, values: Sequence[Scalar | Expr]) -> Expr | None:
        """Entries of one dictionary, of which a list with an item a layer gives the key."""
        matches = [re.fullmatch(r"(.+)\['(\w+)'\]", str(expression(value).args[0])) for value in values]
        if any(match is None for match in matches):
            return None
        found = [match for match in matches if match is not None]
        keys = tuple(match.group(2) for match in found)
        for candidate in self.candidates:
            if candidate.values == keys and len({match.group(1) for match in found}) == 1:
                return Expr("field", (f"{found[0].group(1)}[config.{candidate.expr.args[0]}]",))
        return None


def _numbered(truth: Sequence[bool], numbers: Sequence[int]) -> Expr:
    """``layer_idx in (0, 3)``, by the shorter of the two lists."""
    chosen = tuple(number for number, wanted in zip(numbers, truth, strict=True) if wanted)
    others = tuple(number for number, wanted in zip(numbers, truth, strict=True) if not wanted)
    if len(chosen) == 1 or len(others) == 1:
        return Expr(
            "eq" if len(chosen) == 1 else "ne", (shifted(0), const((chosen if len(chosen) == 1 else others)[0]))
        )
    if len(others) < len(chosen):
        return Expr("not_in", (shifted(0), Expr("const", (others,))))
    return Expr("in", (shifted(0), Expr("const", (chosen,))))


def _condition(expr: Expr) -> Expr:
    """The expression where only its truth counts."""
    return expr.args[0] if expr.op == "bool" and isinstance(expr.args[0], Expr) else expr


def expression(value: Scalar | Expr) -> Expr:
    return value.expr if isinstance(value, Scalar) else value


def same(first: Value, second: Value) -> bool:
    """Whether two constructor arguments are the same and come from the same expression."""
    if isinstance(first, Scalar) and isinstance(second, Scalar):
        return first.value == second.value and first.expr == second.expr
    return type(first) is type(second) and bool(first == second)


def generalize(expressions: Sequence[Expr], numbers: Sequence[int] | None = None) -> Expr | None:
    """One expression on ``layer_idx`` that is the k-th of those given for layer k, if they differ only in k.

    Where not all layers are given, ``numbers`` are those of the ones that are.
    """
    first = expressions[0]
    places = range(len(expressions)) if numbers is None else numbers
    if all(expr == first for expr in expressions):
        return first
    if any(expr.op != first.op or len(expr.args) != len(first.args) for expr in expressions):
        return None
    if first.op == "field":
        paths = {_by_layer(expr.args[0], index) for index, expr in zip(places, expressions, strict=True)}
        return Expr("field", (paths.pop(),)) if len(paths) == 1 else None
    if first.op == "const":
        shifts = {_whole(expr.args[0], index) for index, expr in zip(places, expressions, strict=True)}
        shift = shifts.pop() if len(shifts) == 1 else None
        return shifted(shift) if shift is not None else None
    operands = []
    for position in range(len(first.args)):
        column = [expr.args[position] for expr in expressions]
        merged = generalize([item if isinstance(item, Expr) else const(item) for item in column], numbers)
        if merged is None:
            return None
        operands.append(merged)
    return Expr(first.op, tuple(operands))


def _by_layer(path: str, index: int) -> str:
    """The path with ``layer_idx`` for the layer's number, or for it as a key, with zeros before it where it has any."""

    def key(found: re.Match[str]) -> str:
        digits = found.group(1)
        filled = f".zfill({len(digits)})" if digits != str(index) or len(digits) > 1 else ""
        return f"[str({LAYER}){filled}]" if int(digits) == index else found.group()

    return re.sub(r"\['(\d+)'\]", key, path.replace(f"[{index}]", f"[{LAYER}]"))


def _whole(value: Any, index: int) -> int | None:
    """How much more than the index a whole number is; one that is a float computes the same in what follows."""
    is_whole = type(value) is int or (type(value) is float and value.is_integer())
    return int(value) - index if is_whole else None


def _numbers(expr: Expr) -> list[int]:
    """The whole numbers in an expression, by which those of different layers are ordered."""
    return [int(number) for number in re.findall(r"(?<![\w.])\d+(?![\w.])", str(expr))]


def shifted(shift: int) -> Expr:
    """``layer_idx`` plus a constant."""
    index = Expr("symbol", (LAYER,))
    return index if not shift else Expr("add" if shift > 0 else "sub", (index, const(abs(shift))))


def indexed(expr: Expr) -> Iterable[Expr]:
    """The expression with one whole number that may be a layer's made ``layer_idx``, for each such number."""
    if expr.op == "field":
        general = re.sub(r"\[\d+\]", f"[{LAYER}]", expr.args[0])
        if general != expr.args[0]:
            yield Expr("field", (general,))
        return
    if expr.op == "const":
        if type(expr.args[0]) is int:
            yield shifted(0)
        return
    for position, operand in enumerate(expr.args):
        if isinstance(operand, Expr):
            for inner in indexed(operand):
                yield Expr(expr.op, (*expr.args[:position], inner, *expr.args[position + 1 :]))


def read(config: dict[str, Any], path: str) -> Any:
    """The value at a path below the configuration: ``rope_parameters['rope_theta']``, ``layer_types[3]``."""
    value: Any = config
    for name, key, index in re.findall(r"(?:^|\.)(\w+)|\['([^']*)'\]|\[(\d+)\]", path):
        value = value[int(index)] if index else value[name or key]
    return value


__all__ = ["LAYER", "Candidate", "DifferentLayersError", "Selector", "generalize", "indexed", "read", "same"]
