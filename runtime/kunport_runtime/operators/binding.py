"""Holds a call against its contract: are all arguments there, and do shapes, dtypes and layouts fit?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from kunport_runtime.operators.contract import Contract, Option, TensorArgument
from kunport_runtime.operators.errors import ContractError

_NAMES = {each: str(each).removeprefix("torch.") for each in vars(torch).values() if isinstance(each, torch.dtype)}


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` of ``torch.float32``."""
    return _NAMES[dtype]


@dataclass(slots=True)
class Binding:
    """A call that fits its contract.

    Attributes:
        contract: of the operator.
        arguments: every argument by name, absent ones with their default; outputs may still be missing.
        sizes: dimension -> its size in this call.
        device: of its tensors.
    """

    contract: Contract
    arguments: dict[str, Any]
    sizes: dict[str, int]
    device: torch.device

    def value(self, name: str) -> Any:
        """A property that limits are on (see `Limit.of`); None where the call has none of that name."""
        if name in self.sizes:
            return self.sizes[name]
        argument, _, of_tensor = name.partition(".")
        value = self.arguments.get(argument)
        if of_tensor == "given":
            return value is not None
        if not of_tensor or value is None:
            return value
        return dtype_name(value.dtype) if of_tensor == "dtype" else value.is_contiguous()

    @property
    def is_empty(self) -> bool:
        """Whether it has no tokens, or no rows, and so nothing to compute."""
        return 0 in (self.sizes.get("tokens"), self.sizes.get("rows"))

    @property
    def dtype(self) -> str:
        """The operator's dtype in this call."""
        return dtype_name(self.arguments[self.contract.dtype_of].dtype)

    def allocate_outputs(self) -> None:
        """Allocate what the operator writes and the caller left away.

        Raises:
            ContractError: the other arguments do not say how large it is, or of what dtype.
        """
        for output in self.contract.outputs:
            if output.name not in self.arguments:
                self.arguments[output.name] = self._allocate(output)

    def _allocate(self, output: TensorArgument) -> torch.Tensor:
        shape = [dimension.size(self.sizes) for dimension in output.shape]
        dtype = self.arguments[output.like].dtype if output.like else getattr(torch, output.dtypes[0])
        if None in shape or (len(output.dtypes) > 1 and not output.like):
            _refuse(self.contract, f"{output.name} is missing, and no other argument says what it is.")
        return torch.empty([size for size in shape if size is not None], dtype=dtype, device=self.device)

    def __str__(self) -> str:
        """The call in a line, for errors."""
        parts = []
        for name in (each.name for each in self.contract.arguments):
            value = self.arguments.get(name)
            if isinstance(value, torch.Tensor):
                parts.append(f"{name}: {dtype_name(value.dtype)}{list(value.shape)}")
            elif value is not None and value != self.contract.defaults.get(name):
                parts.append(f"{name}={value!r}")
        return f"{self.contract.name}({', '.join(parts)})"


def bind(contract: Contract, arguments: Mapping[str, object]) -> Binding:
    """The call, once it is known to fit.

    Raises:
        ContractError: it does not; says which argument, and what it should be.
    """
    for name in arguments:
        if name not in contract.tensors and name not in contract.options:
            _refuse(contract, f"it has no argument {name}.")
    bound = {**contract.defaults, **arguments}
    call = Binding(contract, bound, {}, torch.device("cpu"))
    for each in contract.options.values():
        _check_option(call, each)
    _check_tensors(call)
    return call


def _check_option(call: Binding, wanted: Option) -> None:
    if wanted.name not in call.arguments:
        _refuse(call.contract, f"{wanted.name} is missing.")
    value = call.arguments[wanted.name]
    if wanted.choices and value not in wanted.choices:
        _refuse(call.contract, f"{wanted.name} is {value!r}, not {' or '.join(map(repr, wanted.choices))}.")
    allowed = (float, int) if wanted.kind is float else wanted.kind
    fits = isinstance(value, allowed) and isinstance(value, bool) == (wanted.kind is bool)
    if not fits:
        _refuse(call.contract, f"{wanted.name} is {value!r}, which is no {wanted.kind.__name__}.")
    if wanted.kind is int:
        call.sizes[wanted.name] = value


def _check_tensors(call: Binding) -> None:
    given: list[tuple[TensorArgument, torch.Tensor]] = []
    for name, wanted in call.contract.tensors.items():
        tensor = call.arguments.get(name)
        if tensor is None:
            if not wanted.optional and (wanted.role != "writes" or name in call.arguments):
                _refuse(call.contract, f"{name} is missing.")
            continue
        if not isinstance(tensor, torch.Tensor):
            _refuse(call.contract, f"{name} is a {type(tensor).__name__}, no tensor.")
        if tensor.dim() != len(wanted.shape):
            _refuse(call.contract, f"{name} has {tensor.dim()} dimensions, not {_shape(wanted)}.")
        given.append((wanted, tensor))
    if not given:
        _refuse(call.contract, "it has no tensor.")
    call.device = next((tensor.device for wanted, tensor in given if not wanted.on_host), call.device)
    for wanted, tensor in given:
        _check_layout(call, wanted, tensor)
        for dimension, size in zip(wanted.shape, tensor.shape, strict=True):
            if dimension.name and call.sizes.setdefault(dimension.name, size) != size:
                _refuse_shape(call, wanted, tensor)
    for wanted, tensor in given:
        _check_composed(call, wanted, tensor)


def _check_layout(call: Binding, wanted: TensorArgument, tensor: torch.Tensor) -> None:
    if wanted.like:
        like = call.arguments.get(wanted.like)
        if like is not None and like.dtype != tensor.dtype:
            _refuse(
                call.contract,
                f"{wanted.name} is {dtype_name(tensor.dtype)}, not {dtype_name(like.dtype)} as {wanted.like} is.",
            )
    elif dtype_name(tensor.dtype) not in wanted.dtypes:
        _refuse(call.contract, f"{wanted.name} is {dtype_name(tensor.dtype)}, not {' or '.join(wanted.dtypes)}.")
    if tensor.device != (torch.device("cpu") if wanted.on_host else call.device):
        _refuse(call.contract, f"{wanted.name} is on {tensor.device}, the others on {call.device}.")
    if wanted.contiguous and not tensor.is_contiguous():
        _refuse(call.contract, f"{wanted.name} is not contiguous.")
    if tensor.dim() and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        _refuse(call.contract, f"the last stride of {wanted.name} is {tensor.stride(-1)}, not 1.")


def _check_composed(call: Binding, wanted: TensorArgument, tensor: torch.Tensor) -> None:
    for dimension, size in zip(wanted.shape, tensor.shape, strict=True):
        if dimension.name:
            continue
        expected = dimension.size(call.sizes)
        if expected is None and (solved := dimension.solve(size, call.sizes)):
            call.sizes[solved[0]] = solved[1]
        elif expected != size:
            _refuse_shape(call, wanted, tensor)


def _refuse_shape(call: Binding, wanted: TensorArgument, tensor: torch.Tensor) -> NoReturn:
    known = ", ".join(
        f"{name} {call.sizes[name]}" for each in wanted.shape for _, name in each.terms if name in call.sizes
    )
    _refuse(call.contract, f"{wanted.name} is {list(tensor.shape)}, not {_shape(wanted)} with {known}.")


def _shape(wanted: TensorArgument) -> str:
    return f"[{', '.join(each.text for each in wanted.shape)}]"


def _refuse(contract: Contract, fault: str) -> NoReturn:
    raise ContractError(f"A call of {contract.name} does not fit: {fault}", f"See the contract of {contract.name}.")
