"""A class's constructor: its layers in the order in which they are used, and what the forward needs besides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kunport_codegen.emission.identifiers import identifier
from kunport_codegen.emission.imports import class_name
from kunport_codegen.emission.tables import DEFAULT_DTYPE, table_lines
from kunport_codegen.emission.values import expressions, occurrences, render
from kunport_codegen.expression import Expr, Scalar, fields_of, symbols_of
from kunport_codegen.graph import DType
from kunport_codegen.lowering import LoweredModel
from kunport_codegen.lowering.flow import Op, basename
from kunport_codegen.lowering.members import QUANT, Choice, Item, Member, Name, Own, Value
from kunport_codegen.lowering.structure import Body


def configuration(model: LoweredModel) -> str:
    """What the constructors read, from which Transformers hands out no field that some layers have otherwise."""
    path = "vllm_config.model_config.hf_config"
    return f"as_written({path})" if model.graph.config.get("per_layer_config") else path


class Constructor:
    """Collects what a class has to build; the forward is written first and asks for the attributes that it reads."""

    def __init__(self, model: LoweredModel, body: Body) -> None:
        self.model = model
        self.body = body
        self.attributes: dict[Expr, str] = {}
        self.buffers: dict[int, tuple[str, Op]] = {}
        self.declared = _declared(model, body.path)
        self.keeps_dtype = False

    def dtype(self) -> str:
        """The attribute that keeps the model's dtype for the forward: torch's default one may be another by then."""
        self.keeps_dtype = True
        return "self.dtype"

    def attribute(self, expr: Expr) -> str:
        """The attribute that keeps a value of the configuration for the forward."""
        if expr not in self.attributes:
            self.attributes[expr] = f"self.{self._unused(self._name(expr))}"
        return self.attributes[expr]

    def buffer(self, step: Op) -> str:
        """The buffer that keeps a constant tensor, named as the module that makes it names the value."""
        value = step.results[0]
        if value not in self.buffers:
            self.buffers[value] = (self._unused(self._buffer_name(step)), step)
        return f"self.{self.buffers[value][0]}"

    def _buffer_name(self, step: Op) -> str:
        if step.name == "constant":
            return "table"
        if not isinstance(step.args[0], Scalar):
            return "constant"
        expr = step.args[0].expr
        declared = [_declared(self.model, path).get(expr) for path in self._makers(step.results[0])]
        return next((name.removeprefix("scalar_") for name in declared if name), self._name(expr))

    def _makers(self, value: int) -> list[str]:
        """The modules that use a constant, as the source has them."""
        return [step.origin or step.owner for step in self.body.steps if value in step.inputs()]

    def _name(self, expr: Expr) -> str:
        """What the source calls the value, else the configuration's field."""
        if expr.op == "item" and isinstance(numbers := expr.args[0].args[0], tuple):
            return self._name_of_one(numbers)
        field = next(iter(sorted(fields_of(expr))), "size")
        return identifier(self.declared.get(expr) or field.partition("[")[0].rpartition(".")[2])

    def _name_of_one(self, numbers: tuple[float, ...]) -> str:
        """What the source's constructor calls a number that each layer has another of."""
        module = self.model.graph.modules.get(self.body.path)
        attributes = module.attributes if module is not None else {}
        own = (name for name, value in attributes.items() if type(value) is float and value in numbers)
        return identifier(next(own, "factor"))

    def _unused(self, name: str) -> str:
        taken = {text.removeprefix("self.") for text in self.attributes.values()}
        taken.update(taken_name for taken_name, _ in self.buffers.values())
        taken.update(member.name for member in _members(self.body.steps))
        number = 1
        while name in taken:
            number += 1
            name = f"{name.rstrip('0123456789').removesuffix('_')}_{number}"
        return name

    def lines(self) -> list[str]:
        """What follows ``super().__init__()``."""
        built = [line for step in self._building_steps() for line in self._built(step)]
        names = self._locals([value for _, value in built])
        written = [line for name, value in built for line in self._write(name, value, names)]
        head = [f"{name} = {render(expr, {})}" for expr, name in names.items() if not name.startswith("self.")]
        kept = _inner_first(self.attributes)
        head += [f"{name} = {render(expr, _without(names, expr))}" for expr, name in kept.items()]
        head += [line for name, step in self.buffers.values() for line in self._buffer(name, step, names)]
        if self.keeps_dtype:
            head.append(f"self.dtype = {DEFAULT_DTYPE}")
        if any("layer_idx" in line for line in [*head, *written]):
            head.insert(0, "layer_idx = extract_layer_index(prefix)")
        text = "\n".join([*head, *written])
        if text.count(QUANT.text) > 1:
            written = [line.replace(f"={QUANT.text}", "=quant_config") for line in written]
            head.insert(0, f"quant_config = {QUANT.text}")
        if "config." in "\n".join([*head, *written]).replace("vllm_config.", "").replace("quant_config", ""):
            head.insert(0, f"config = {configuration(self.model)}")
        return [*head, *written]

    def _building_steps(self) -> list[Op]:
        seen: set[str] = set()
        steps = []
        for step in self.body.steps:
            name = _attribute_of(step)
            if name not in seen or step.name == "split_heads":
                steps.append(step)
                seen.add(name)
        return steps

    def _built(self, step: Op) -> list[tuple[str, Value]]:
        """(what is assigned to, with what) for a step: nothing for plain torch."""
        if step.name == "call" and step.member is not None:
            return [(step.member.name, step.member)]
        if step.name == "enter":
            return [(basename(step.fact.path), step)]
        if step.name == "split_heads" and step.member is not None and len(step.member.args) > 3:
            return [("q_size", (step.member, "num_heads")), ("kv_size", (step.member, "num_kv_heads"))]
        if step.name == "parameter":
            return [(step.args[0], list(step.args[1]))]
        return []

    def _locals(self, values: Iterable[Value]) -> dict[Expr, str]:
        """Names for expressions of more than one field that stand in several places, as the source names them."""
        names = {expr: text for expr, text in self.attributes.items() if expr.op != "field"}
        used = [expr for value in values for expr in _expressions(value)]
        used += list(self.attributes)
        for expr, name in self.declared.items():
            compound = expr.op not in ("field", "const", "symbol") and not symbols_of(expr)
            if compound and expr not in names and sum(occurrences(other, expr) for other in used) > 1:
                names[expr] = identifier(name)
        return names

    def _write(self, name: str, value: Value, names: dict[Expr, str]) -> list[str]:
        target = f"self.{identifier(name)}"
        if isinstance(value, Op):
            text = _module(value.fact, name, names)
            for test, other in value.instead:
                text = f"{_module(other.fact, name, names)} if {render(test, names)} else {text}"
            return [f"{target} = {text}"]
        if isinstance(value, Member):
            member, held = _held(value, names)
            member, hoisted = _hoisted(member, names)
            return [*held, *hoisted, f"{target} = {construction(member, names)}"]
        if isinstance(value, tuple):
            member, attribute = value
            return [f"{target} = {render(Item(member.name, attribute), names)} * {_factor(member.args[1], names)}"]
        sizes = ", ".join(render(size, names) for size in value)
        return [f"{target} = nn.Parameter(torch.empty({sizes}))"]

    def _buffer(self, name: str, step: Op, names: dict[Expr, str]) -> list[str]:
        """No part of the checkpoint."""
        if step.name == "constant":
            return table_lines(name, step.fact, self.model.layouts, self.model.dtypes, names)
        tensor = f"torch.tensor({render(step.args[0], names)}{_dtype(step.kwargs.get('dtype'))})"
        return [f'self.register_buffer("{identifier(name)}", {tensor}, persistent=False)']


def _module(body: Body, name: str, names: dict[Expr, str]) -> str:
    """The construction of a module of the adapter's own."""
    arguments = [f"{identifier(key)}={render(item, names)}" for key, item in body.arguments.items()]
    prefix = f'prefix=f"{{prefix}}.{identifier(name)}"'
    return f"{class_name(body.cls)}({', '.join(['vllm_config', *arguments, prefix])})"


def _factor(value: Value, names: dict[Expr, str]) -> str:
    text = render(value, names)
    return f"({text})" if " " in text else text


def _held(member: Member, names: dict[Expr, str]) -> tuple[Member, list[str]]:
    """The member with parameters of the class in the place of those that it is handed, and the lines that make these.

    They are loaded like all others; a layer that is given one in another shape sees the same memory.
    """
    kwargs, lines = dict(member.kwargs), []
    for key, value in member.kwargs.items():
        choice = value if isinstance(value, Choice) else None
        own = value if choice is None else choice.then if isinstance(choice.then, Own) else choice.otherwise
        if not isinstance(own, Own):
            continue
        name = identifier(own.name)
        made = f"nn.Parameter(torch.empty({_sizes(own, names)}{_dtype(own.dtype)}), requires_grad=False)"
        if choice is not None:
            then, otherwise = (Name(made) if each is own else each for each in (choice.then, choice.otherwise))
            made = render(Choice(choice.test, then, otherwise), names)
        lines.append(f"self.{name} = {made}")
        if own.split:
            loader = f'set_weight_attrs(self.{name}, {{"weight_loader": sharded_weight_loader(0)}})'
            lines += [f"if self.{name} is not None:", f"    {loader}"] if choice is not None else [loader]
        kwargs[key] = Name(f"self.{name}.flatten()" if own.flat else f"self.{name}")
    return replace(member, kwargs=kwargs), lines


def _sizes(own: Own, names: dict[Expr, str]) -> str:
    sizes = [render(size, names) for size in own.sizes]
    if own.split:
        sizes[0] = f"divide({sizes[0]}, get_tensor_model_parallel_world_size())"
    return ", ".join(sizes)


def _dtype(dtype: DType | None) -> str:
    """The argument that makes a tensor of this type; the model's is torch's default while the model is built."""
    return f", dtype=torch.{identifier(dtype.name)}" if dtype is not None and dtype.name != "model" else ""


def _hoisted(member: Member, names: dict[Expr, str]) -> tuple[Member, list[str]]:
    """The member with its choices by layer in variables of their own, and the lines that set these."""
    choices = {key: value for key, value in member.kwargs.items() if isinstance(value, Choice)}
    variables = {key: identifier(key).removeprefix("per_layer_") for key in choices}
    lines = [f"{variables[key]} = {render(value, names)}" for key, value in choices.items()]
    kwargs = {key: Name(variables[key]) if key in choices else value for key, value in member.kwargs.items()}
    return replace(member, kwargs=kwargs), lines


def construction(member: Member, names: dict[Expr, str]) -> str:
    """A layer's construction, on the condition on which it is there."""
    args = [render(value, names) for value in member.args]
    args += [f"{identifier(key)}={render(value, names)}" for key, value in member.kwargs.items()]
    factory = ".".join(identifier(part) for part in member.factory.split("."))
    text = f"{factory}({', '.join(args)})"
    return text if member.when is None else f"{text} if {render(member.when, names)} else None"


def _expressions(value: Value) -> Iterable[Expr]:
    if isinstance(value, Member):
        for part in [*value.args, *value.kwargs.values()]:
            yield from expressions(part)
    elif isinstance(value, tuple):
        yield from expressions(value[0].args[1])


def _members(steps: Iterable[Op]) -> Iterable[Member]:
    return (step.member for step in steps if step.member is not None)


def _attribute_of(step: Op) -> str:
    if step.name == "enter":
        return basename(step.fact.path)
    return step.member.name if step.member is not None else f"{step.name} {step.results[0]}"


def _declared(model: LoweredModel, path: str) -> dict[Expr, str]:
    """What the source's constructor keeps under which name; the first name of each value."""
    module = model.graph.modules.get(path)
    attributes = module.attributes if module is not None else {}
    return {
        value.expr: name
        for name, value in reversed(attributes.items())
        if isinstance(value, Scalar) and name.isidentifier()
    }


def _inner_first(names: dict[Expr, str]) -> dict[Expr, str]:
    """The same, each expression after those that stand in it."""
    ordered: dict[Expr, str] = {}
    for expr in names:
        inside = [other for other in names if other != expr and other.op != "field" and occurrences(expr, other)]
        for each in [*sorted(inside, key=lambda other: len(str(other))), expr]:
            ordered.setdefault(each, names[each])
    return ordered


def _without(names: dict[Expr, str], expr: Expr) -> dict[Expr, str]:
    return {other: name for other, name in names.items() if other != expr}
