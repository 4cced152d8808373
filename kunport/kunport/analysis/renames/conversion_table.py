"""Reads ``conversion_mapping.py`` of Transformers: model type or class name to a list of conversions."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from kunport.analysis.library import definitions
from kunport.analysis.library.installed import installation
from kunport.analysis.parsing import parse
from kunport.analysis.renames.conversion import Conversion
from kunport.errors import KunportError

_FUNCTION, _ALIASES = "def _build_checkpoint_conversion_mapping", "_MODEL_TO_CONVERSION_PATTERN"


@dataclass(frozen=True, slots=True)
class SubModel:
    """A pretrained model in the module tree: its path ("" for the root), class and its configuration's model type."""

    path: str
    architecture: str
    model_type: str


def conversions_of(models: Iterable[SubModel], base: str) -> list[Conversion]:
    """The conversions of a tree, in the order in which loading applies them.

    ``models`` are the classes below Transformers' PreTrainedModel, the root first, and ``base`` the name that the root
    gives its base model (``base_model_prefix``). Custom code has none: Transformers does not convert for it.

    A sub-model's conversions are looked up by its class, then by its model type, and apply below its path. A class or
    type that an ancestor was found by is not taken twice.

    Raises:
        KunportError: the table of the installed Transformers cannot be read.
    """
    table = _table()
    found: list[Conversion] = []
    claimed: dict[str, list[str]] = {}

    def covered(key: str, path: str) -> bool:
        return any(ancestor == "" or path.startswith(f"{ancestor}.") for ancestor in claimed.get(key, []))

    for model in models:
        if covered(model.architecture, model.path):
            continue
        conversions, by_type = table.read(model.architecture), False
        if conversions is None and not covered(model.model_type, model.path):
            conversions, by_type = table.read(model.model_type), True
        if conversions is None:
            continue
        if model.path:
            scope = model.path.removeprefix(base).removeprefix(".")
            conversions = [replace(each, scope=scope, base=base) for each in conversions]
        found.extend(conversions)
        for key in [model.architecture] + [model.model_type] * by_type:
            claimed.setdefault(key, []).append(model.path)
    return found


def legacy_conversions() -> list[Conversion]:
    """Those that loading applies to every model last, and saving never reverts."""
    return _table().read("legacy") or []


@cache
def _table() -> _ConversionTable:
    return _ConversionTable()


class _ConversionTable:
    """The table of the installed Transformers; it is parsed only once a key is mentioned in it."""

    def __init__(self) -> None:
        self._path = installation().root / "transformers" / "conversion_mapping.py"
        try:
            self._source = definitions.read_source(self._path)
        except OSError as error:
            raise self._unreadable() from error
        self._entries: dict[str, list[ast.expr]] | None = None

    def read(self, key: str) -> list[Conversion] | None:
        """The conversions of a class name or model type, None where there are none."""
        if f'"{key}"' not in self._source:
            return None
        if self._entries is None:
            try:
                self._entries = _entries(self._source)
            except (ValueError, StopIteration) as error:
                raise self._unreadable() from error
        calls = self._entries.get(key)
        try:
            return None if calls is None else [_conversion(call) for call in calls]
        except ValueError as error:
            raise self._unreadable() from error

    def _unreadable(self) -> KunportError:
        return KunportError(
            f"The table of weight conversions {self._path} could not be read.",
            "Install transformers 5.19.0, which kunport knows.",
        )


def _entries(source: str) -> dict[str, list[ast.expr]]:
    """Key -> the expressions of its conversions, not yet read: what the table's building function assigns."""
    function = parse(next(definitions.statements(source, _FUNCTION))).body[0]
    assert isinstance(function, ast.FunctionDef)
    entries: dict[str, list[ast.expr]] = {}
    for statement in function.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
            for key, value in zip(statement.value.keys, statement.value.values, strict=True):
                entries[ast.literal_eval(key) if key else ""] = _elements(value, entries)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
            entries[ast.literal_eval(statement.targets[0].slice)] = _elements(statement.value, entries)
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Subscript):
            key_name = ast.literal_eval(statement.target.slice)
            entries[key_name] = entries.get(key_name, []) + _elements(statement.value, entries)
    for alias, original in definitions.table(source, _ALIASES).items():
        if alias not in entries and original in entries:
            entries[alias] = entries[original]
    return entries


def _elements(node: ast.expr, entries: dict[str, list[ast.expr]]) -> list[ast.expr]:
    """The elements of a list display, a sum of lists or ``mapping[key].copy()``; what is none of these stays whole."""
    if isinstance(node, ast.List):
        return node.elts
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _elements(node.left, entries) + _elements(node.right, entries)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "copy":
        copied = node.func.value
        if isinstance(copied, ast.Subscript):
            return entries.get(ast.literal_eval(copied.slice), [])
    return [node]


def _conversion(node: ast.expr) -> Conversion:
    """Reads ``WeightRenaming(...)`` and its like.

    Raises:
        ValueError: the expression is no such call with literal arguments.
    """
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise ValueError(ast.unparse(node))
    arguments: dict[str, ast.expr] = {keyword.arg or "": keyword.value for keyword in node.keywords}
    if node.func.id == "PrefixChange":
        return _prefix_change({name: ast.literal_eval(value) for name, value in arguments.items()})
    arguments = dict(zip(["source_patterns", "target_patterns", "operations"], node.args, strict=False)) | arguments
    sources, targets = (_strings(arguments[name]) for name in ("source_patterns", "target_patterns"))
    if node.func.id == "WeightRenaming":
        return Conversion(sources, targets)
    if node.func.id == "WeightConverter":
        operations = arguments["operations"]
        calls = operations.elts if isinstance(operations, ast.List) else [operations]
        return Conversion(sources, targets, tuple(_operation(call) for call in calls))
    return Conversion(sources, targets, (f"unknown:{node.func.id}",))


def _prefix_change(arguments: dict[str, str | None]) -> Conversion:
    model = arguments.get("model_prefix")
    outer = rf"{model}\." if model else ""
    added, removed = arguments.get("prefix_to_add"), arguments.get("prefix_to_remove")
    if added is not None:
        return Conversion((rf"^{outer}(?:(?!{added}\.))(.+)$",), (rf"{outer}{added}\.\1",), prefix=True)
    return Conversion((rf"^{outer}{removed}\.(.+)$",), (rf"{outer}\1",), prefix=True)


def _operation(node: ast.expr) -> str:
    """An operation in the graph's notation."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return f"unknown:{ast.unparse(node)}"
    name = node.func.id
    positional = [ast.literal_eval(argument) for argument in node.args]
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
    dim = named.get("dim", positional[0] if positional else 0)
    if name == "MergeModulelist" and dim == 0:
        return "stack"
    if name in ("Concatenate", "Chunk"):
        return f"{name.lower()}:{dim}"
    if name == "Interleave" and not named.get("inverse"):
        return f"deinterleave:{dim}"
    if name == "Transpose" and not named.get("check_dims"):
        first, second = [*positional, named.get("dim0", 0), named.get("dim1", 1)][:2]
        return f"transpose:{first},{second}"
    return f"unknown:{ast.unparse(node)}"


def _strings(node: ast.expr) -> tuple[str, ...]:
    value = ast.literal_eval(node)
    return (value,) if isinstance(value, str) else tuple(value)
