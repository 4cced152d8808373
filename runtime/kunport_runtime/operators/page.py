"""The reference page of the operators, from their contracts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kunport_runtime.operators.contract import REQUIRED, Contract, Option, TensorArgument

_INTRODUCTION = """# Operators

What adapters run on. `kunport_runtime.operators.NAME(...)` takes the arguments below by keyword, runs the operator with
the first provider of the policy that takes the call, and returns what it writes; outputs that are not given are
allocated. An argument's role is *reads*; *writes* (whatever was there before); *updates* (reads and overwrites); or
*fills* (writes in part, and never reads). The last dimension of a tensor has stride 1, every other stride is free,
unless it is contiguous. A number that is 0 stands for none.

`kunport ops` says who runs what on a device and why, `kunport ops check OPERATOR` holds an implementation against the
contract's cases. This page is written by `python -m kunport_runtime.operators`; every operator is one file in
`runtime/kunport_runtime/operators`, and [your own](../own-operator.md) is one more.
"""


def page(contracts: Iterable[Contract]) -> str:
    """The whole page as Markdown, of contracts in the order of their families."""
    parts = [_INTRODUCTION]
    family = ""
    for contract in contracts:
        if contract.family != family:
            family = contract.family
            parts.append(f"## {family}\n")
        parts.append("\n".join(_section(contract)))
    return "\n".join(parts)


def _section(contract: Contract) -> Iterator[str]:
    yield f"### {contract.name}\n"
    yield f"{contract.doc}\n"
    yield "| tensor | shape | dtype | role | |\n|---|---|---|---|---|"
    for tensor in contract.tensors.values():
        yield _row(f"`{tensor.name}`", _shape(tensor), _dtype(tensor), _role(tensor), tensor.meaning)
    if contract.options:
        yield "\n| option | value | default | |\n|---|---|---|---|"
        for option in contract.options.values():
            yield _row(f"`{option.name}`", _value(option), _default(option), option.meaning)
    if contract.limits:
        yield f"\nLimits: {'; '.join(map(str, contract.limits))}.\n"
    yield f"\nTolerance, by the dtype of `{contract.dtype_of}`:\n"
    yield "| dtype | absolute | relative | why |\n|---|---|---|---|"
    for dtype, tolerance in contract.tolerance.items():
        yield _row(dtype, f"{tolerance.absolute:.2g}", f"{tolerance.relative:.2g}", tolerance.source)
    yield ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _shape(tensor: TensorArgument) -> str:
    contiguous = " contiguous" if tensor.contiguous else ""
    return f"`[{', '.join(each.text for each in tensor.shape)}]`{contiguous}{' or None' if tensor.optional else ''}"


def _dtype(tensor: TensorArgument) -> str:
    return f"of `{tensor.like}`" if tensor.like else ", ".join(tensor.dtypes)


def _role(tensor: TensorArgument) -> str:
    where = " on the host" if tensor.on_host else ""
    return f"{tensor.role}{where}{f', may be `{tensor.may_be}`' if tensor.may_be else ''}"


def _value(option: Option) -> str:
    return ", ".join(f"`{each}`" for each in option.choices) or option.kind.__name__


def _default(option: Option) -> str:
    return "" if option.default is REQUIRED else f"`{option.default}`"
