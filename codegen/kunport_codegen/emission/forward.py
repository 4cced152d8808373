"""A body's forward as lines of source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kunport_codegen.emission.identifiers import identifier
from kunport_codegen.emission.naming import Names
from kunport_codegen.emission.operators import ATOM, constant, operator
from kunport_codegen.emission.statements import Plan, Statement, plan
from kunport_codegen.expression import Expr, Scalar, unwrap
from kunport_codegen.graph import DType, Ref
from kunport_codegen.lowering.flow import NO_RESIDUAL, POSITIONS, Layout, Op, basename
from kunport_codegen.lowering.structure import LEAVES

# Writes a size or constant with an expression on the configuration: the attribute that the constructor keeps it in.
Attribute = Callable[[Expr], str]

_MODEL = DType("model")


class Forward:
    """Writes the statements of one forward method.

    Args:
        layouts, dtypes: of values.
        hints: what values are best called.
        inputs: value -> the parameter's name.
        optional: inputs that are None in the first layer.
        attribute: see `Attribute`.
        constant_name: writes a constant tensor: the buffer that the constructor keeps it in.
        model_dtype: writes the model's dtype where nothing at hand has it.
    """

    def __init__(
        self,
        steps: list[Op],
        outputs: list[int],
        inputs: Mapping[int, str],
        *,
        layouts: Mapping[int, Layout],
        dtypes: Mapping[int, DType | None],
        hints: dict[int, str],
        optional: set[int],
        attribute: Attribute,
        constant_name: Callable[[Op], str],
        model_dtype: Callable[[], str],
    ) -> None:
        self.plan: Plan = plan(steps, outputs)
        self.outputs = outputs
        self.layouts = layouts
        self.optional = optional
        self.attribute = attribute
        self.leaves = {step.results[0]: step for step in steps if step.name in LEAVES}
        self.constant = constant_name
        self.kept_dtype = model_dtype
        tensors = [name for value, name in inputs.items() if value != POSITIONS]
        self.names = Names(hints, tensors[0] if tensors else "hidden_states")
        self.dtypes = dtypes
        for value, name in inputs.items():
            self.names.bind(value, name)

    @property
    def model_dtype(self) -> str:
        """The model's dtype, as that of something that has a name at this place."""
        typed = (name for value, name in self.names.bound.items() if self.dtypes.get(value) == _MODEL)
        name = next(typed, None)
        return f"{name}.dtype" if name is not None else self.kept_dtype()

    def lines(self) -> list[str]:
        """Every statement, then the return."""
        written: list[str] = []
        for statement in self.plan.statements:
            written += self.statement(statement)
        return [*written, f"return {self.result()}"]

    def result(self) -> str:
        return ", ".join(self.value(Ref(value))[0] for value in self.outputs)

    def statement(self, statement: Statement) -> list[str]:
        """One statement. A norm that adds the residual has two forms where there may be none yet."""
        step = statement.step
        text = self.expression(step)[0]
        optional = step.name == "call" and len(step.args) == 2 and step.args[1].id in self.optional
        if optional:
            return self._first_or_later(statement, text)
        passed = [self.value(Ref(value))[0] for value in step.inputs() if value >= 0]
        returned = set(step.results) & set(self.outputs) != set()
        names = self.names.choose(step, statement.alive, returned)
        if step.member is not None and step.member.returns == "pair" and step.name == "call":
            return [f"{names[0]}, _ = {text}"]
        line = f"{', '.join(names)} = {text}"
        if step.member is not None and step.member.when is not None:
            return [f"if self.{identifier(step.member.name)} is not None:", f"    {line}", *_passed(names, passed)]
        return [line]

    def _first_or_later(self, statement: Statement, text: str) -> list[str]:
        step = statement.step
        branch, residual = self.value(step.args[0])[0], self.value(step.args[1])[0]
        member = identifier(step.member.name if step.member is not None else "")
        names = self.names.choose(step, statement.alive | set(step.results), returned=False)
        return [
            f"if {residual} is None:",
            f"    {names[1]} = {branch}",
            f"    {names[0]} = self.{member}({branch})",
            "else:",
            f"    {', '.join(names)} = {text}",
        ]

    def value(self, arg: Any) -> tuple[str, int]:
        """An operand: source and precedence."""
        if isinstance(arg, Ref):
            if arg.id in self.plan.inline:
                return self.expression(self.plan.inline[arg.id])
            if arg.id in self.leaves:
                return self._leaf(self.leaves[arg.id]), ATOM
            if arg.id == NO_RESIDUAL and arg.id not in self.names.bound:
                return "None", ATOM
            return self.names.bound[arg.id], ATOM
        if isinstance(arg, list | tuple):
            items = ", ".join(self.value(item)[0] for item in arg)
            return (f"[{items}]" if isinstance(arg, list) else f"({items}{',' if len(arg) == 1 else ''})"), ATOM
        if isinstance(arg, Scalar | Expr) and (expr := arg.expr if isinstance(arg, Scalar) else arg).op != "const":
            text = self.attribute(expr)
            return text, 0 if " " in text else ATOM
        text = constant(arg, self.model_dtype)
        return text, 8 if text.startswith("-") else ATOM

    def expression(self, step: Op) -> tuple[str, int]:
        """What a step computes: source and precedence."""
        if step.name in ("call", "enter"):
            name = step.member.name if step.member is not None else basename(step.fact.path)
            args = [self.value(arg)[0] for arg in step.args]
            args += [f"{identifier(key)}={self.value(arg)[0]}" for key, arg in step.kwargs.items()]
            return f"self.{identifier(name)}({', '.join(args)})", ATOM
        if step.name == "kernel":
            return f"{identifier(step.fact.name)}({', '.join(self.value(arg)[0] for arg in step.args)})", ATOM
        if step.name == "split_heads":
            return self._split_heads(step), ATOM
        if step.name == "view":
            return self._view(step), ATOM
        if step.name == "item":
            return f"{self.value(step.args[0])[0]}[{self.value(step.args[1])[0]}]", ATOM
        return operator(step.name, step.args, step.kwargs, self.value)

    def _leaf(self, step: Op) -> str:
        if step.name != "parameter":
            return self.constant(step)
        return ".".join(["self", *(identifier(part) for part in step.args[0].split("."))])

    def _split_heads(self, step: Op) -> str:
        packed = self.value(step.args[0])[0]
        if step.member is not None and len(step.member.args) == 3:  # as many key-value heads as query heads
            return f"{packed}.chunk(3, dim=-1)"
        return f"{packed}.split([self.q_size, self.kv_size, self.kv_size], dim=-1)"

    def _view(self, step: Op) -> str:
        source = step.args[0]
        text, precedence = self.value(source)
        text = text if precedence == ATOM else f"({text})"
        before, after = self.layouts[source.id].sizes, self.layouts[step.results[0]].sizes
        if len(before) == 1 and len(after) > 1:
            rest = ", ".join(self.value(size)[0] for size in after[1:])
            return f"{text}.unflatten(-1, (-1, {rest}))"
        if len(after) == 1 and len(before) > 1:
            return f"{text}.flatten(-{len(before)})"
        added = _one_more(before, after)
        if added is not None:
            return f"{text}.unsqueeze({added})"
        removed = _one_more(after, before)
        if removed is not None:
            return f"{text}.squeeze({removed})"
        rest = ", ".join(self.value(size)[0] for size in after[1:])
        return f"{text}.reshape({text}.shape[0], -1, {rest})" if after[1:] else f"{text}.flatten(1)"


def _passed(names: list[str], passed: list[str]) -> list[str]:
    """What becomes of the results where the layer is missing: they are what would have gone in."""
    pairs = [(name, text) for name, text in zip(names, passed, strict=True) if text != name and name != "_"]
    if not pairs:
        return []
    return ["else:", f"    {', '.join(name for name, _ in pairs)} = {', '.join(text for _, text in pairs)}"]


def _one_more(fewer: tuple[Any, ...], more: tuple[Any, ...]) -> int | None:
    """Where an axis of size 1 has to be put, counted from the end, to make one shape the other."""
    small, large = [unwrap(size) for size in fewer], [unwrap(size) for size in more]
    for place in range(len(large)):
        if large[place] == 1 and large[:place] + large[place + 1 :] == small:
            return place - len(large)
    return None
