"""``kernels.py``: each chain of row-wise operators as a Triton kernel, with its reference in torch and its cases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kunport_codegen.emission.descriptions import place
from kunport_codegen.emission.formatting import format_python
from kunport_codegen.emission.forward import Forward
from kunport_codegen.emission.identifiers import identifier, module_name
from kunport_codegen.emission.tables import DEFAULT_DTYPE
from kunport_codegen.emission.templates import environment
from kunport_codegen.emission.triton_code import Rounded, value_of
from kunport_codegen.expression import Expr, Scalar, unwrap, walk
from kunport_codegen.graph import DType, Ref
from kunport_codegen.lowering import LoweredModel
from kunport_codegen.lowering.flow import Op
from kunport_codegen.lowering.rowwise import COLUMN, FULL, NUMBER, ROW, Kernel, kernels_of

FILE = "kernels.py"
_COLUMNS = 1024  # that a program takes where it need not see a whole row
_TENSORS = {FULL: ("x", "y", "z", "u", "v"), ROW: ("factor",), COLUMN: ("weight",)}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel's function.

    Attributes:
        name: as the function has it.
        kind: what it is: see `Operand.kind`.
        example: dtype of a tensor, ``model`` or ``float32``, or the value of a number.
    """

    name: str
    kind: str
    example: str

    @property
    def words(self) -> str:
        """What the function's docstring says of it."""
        dtype = "the model's dtype" if self.example == "model" else self.example
        shapes = {FULL: "``[..., width]``", ROW: "``[..., 1]``", COLUMN: "``[width]``"}
        return "a number" if self.kind == NUMBER else f"{shapes[self.kind]}, {dtype}"


@dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel as text.

    Attributes:
        doc: what it is and where the source does it.
        load, compute: the kernel's lines; ``result`` is the variable that they leave the result in.
        reference: the lines of the same in torch.
        sizes: of a token.
        reduces: whether a program sees a whole row.
        output: dtype of the result, ``model`` or ``float32``.
    """

    name: str
    doc: str
    parameters: list[Parameter]
    load: list[str]
    compute: list[str]
    result: str
    reference: list[str]
    sizes: list[int]
    reduces: bool
    output: str

    @property
    def first(self) -> str:
        """The tensor that has the result's shape."""
        return next(each.name for each in self.parameters if each.kind == FULL)

    @property
    def model(self) -> str:
        """A tensor of the model's dtype, "" where every value is float32."""
        return next((each.name for each in self.parameters if each.kind != NUMBER and each.example == "model"), "")

    @property
    def signature(self) -> str:
        return ", ".join(
            f"{each.name}: {'float' if each.kind == NUMBER else 'torch.Tensor'}" for each in self.parameters
        )

    @property
    def call(self) -> str:
        return ", ".join(each.name for each in self.parameters)

    @property
    def launched(self) -> str:
        """What the kernel is launched with."""
        return ", ".join(
            f"{each.name}, {each.name}_stride" if each.kind == FULL else each.name for each in self.parameters
        )

    @property
    def output_dtype(self) -> str:
        return f"{self.model}.dtype" if self.output == "model" else "torch.float32"

    @property
    def block(self) -> str:
        """How many columns a program takes."""
        return "triton.next_power_of_2(width)" + ("" if self.reduces else f" if width < {_COLUMNS} else {_COLUMNS}")

    @property
    def case(self) -> str:
        """The parameters as a case has them."""
        given = [
            each.example if each.kind == NUMBER else repr(f"{each.kind} {each.example}") for each in self.parameters
        ]
        return f"({', '.join(given)},)"

    @property
    def size_tuple(self) -> str:
        return f"({', '.join(map(str, self.sizes))},)"


def kernel_file(model: LoweredModel) -> str:
    """``kernels.py``, formatted; "" where the model has no kernel."""
    kernels = [_source(model, kernel) for kernel in kernels_of(model.root)]
    if not kernels:
        return ""
    lines = "\n".join(line for kernel in kernels for line in (*kernel.compute, kernel.model and "triton_dtype"))
    used = [name for name in ("sigmoid", "tanh", "triton_dtype") if f"{name}" in lines]
    imports = sorted(["Case", "launches", "rows", "tl", "triton", *used], key=lambda name: (name.islower(), name))
    functional = any("nn." in line for kernel in kernels for line in kernel.reference)
    context = {
        "architecture": model.graph.architecture,
        "module": module_name(model.graph.model_type),
        "kernels": kernels,
        "imports": ", ".join(imports),
        "functional": functional,
    }
    text = environment().get_template("kernels.py.jinja").render(context)
    return format_python(text, FILE)


def kernel_test(model: LoweredModel) -> str:
    """The kernels' own test."""
    text = environment().get_template("test_kernels.py.jinja").render(architecture=model.graph.architecture)
    return format_python(text, "test_kernels.py")


def _source(model: LoweredModel, kernel: Kernel) -> KernelSource:
    parameters = _parameters(model, kernel)
    names = dict(zip((operand.value for operand in kernel.operands), (each.name for each in parameters), strict=True))
    tensors = {value.id: name for value, name in names.items() if isinstance(value, Ref)}
    numbers = {_expression(value): name for value, name in names.items() if not isinstance(value, Ref)}
    load = [_load(parameter) for parameter in parameters if parameter.kind != NUMBER]
    held = {value: f"{name}_values" for value, name in tensors.items()}
    compute = []
    for position, step in enumerate(kernel.steps):
        held[step.results[0]] = f"v{position}"
        dtype = _dtype(model, step.results[0])
        compute.append(value_of(step, f"v{position}", held, numbers, Rounded(dtype)))
    return KernelSource(
        name=identifier(kernel.name),
        doc=f"{len(kernel.steps)} operators in one ({place(kernel.where)})",
        parameters=parameters,
        load=load,
        compute=compute,
        reference=_reference(model, kernel, tensors, numbers),
        sizes=[int(unwrap(size)) for size in kernel.sizes],
        reduces=kernel.reduces,
        output=_dtype(model, kernel.result),
        result=held[kernel.result],
    )


def _parameters(model: LoweredModel, kernel: Kernel) -> list[Parameter]:
    taken: set[str] = set()
    parameters = []
    for operand in kernel.operands:
        value: Any = operand.value
        options = list(_TENSORS[operand.kind]) if operand.kind != NUMBER else [_number_name(value)]
        name = next((each for each in options if each not in taken), None)
        number = 2
        while name is None:
            name = f"{options[-1]}_{number}" if f"{options[-1]}_{number}" not in taken else None
            number += 1
        taken.add(name)
        example = repr(float(unwrap(value))) if operand.kind == NUMBER else _dtype(model, value.id)
        parameters.append(Parameter(name, operand.kind, example))
    return parameters


def _number_name(value: Scalar | Expr) -> str:
    """A number by the last name of the configuration field in it."""
    fields = [part.args[0] for part in walk(_expression(value)) if part.op == "field"]
    name = fields[0].rpartition(".")[2] if len(fields) == 1 else "number"
    return name if name.isidentifier() and name.isascii() and name not in _RESERVED else "number"


_RESERVED = {
    "x",
    "y",
    "z",
    "u",
    "v",
    "factor",
    "weight",
    "result",
    "width",
    "columns",
    "inside",
    "row",
    "torch",
    "model",
    "block",
}


def _expression(value: Any) -> Expr:
    return value.expr if isinstance(value, Scalar) else value


def _load(parameter: Parameter) -> str:
    name = parameter.name
    if parameter.kind == ROW:
        return f"{name}_values = tl.load({name} + row).to(tl.float32)"
    place = f"{name} + columns" if parameter.kind == COLUMN else f"{name} + row * {name}_stride + columns"
    return f"{name}_values = tl.load({place}, mask=inside, other=0.0).to(tl.float32)"


def _dtype(model: LoweredModel, value: int) -> str:
    dtype = model.dtypes.get(value)
    return dtype.name if dtype is not None else "model"


def _reference(model: LoweredModel, kernel: Kernel, tensors: dict[int, str], numbers: dict[Expr, str]) -> list[str]:
    """The chain as torch writes it. Sizes are a parameter's own, so nothing of the configuration is left."""
    steps: list[Op] = [replace(step) for step in kernel.steps]
    forward = Forward(
        steps,
        [kernel.result],
        tensors,
        layouts=model.layouts,
        dtypes={value: dtype if dtype is not None else DType("model") for value, dtype in model.dtypes.items()},
        hints={},
        optional=set(),
        attribute=lambda expr: numbers[expr],
        constant_name=lambda step: "",
        model_dtype=lambda: DEFAULT_DTYPE,
    )
    return forward.lines()
