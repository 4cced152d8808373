"""Rotary tables: cosines and sines of position times frequency."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kunport_codegen.expression import Scalar, symbols_of, unwrap
from kunport_codegen.facts import Number, RopeTable
from kunport_codegen.graph import Node

from .evaluate import UnevaluableError, evaluate
from .exponentials import exponential
from .frequencies import frequencies
from .index import Index, combine, equal, is_cast, number, split_number
from .own_frequencies import formula
from .rules import Array
from .spelling import spelled

# Operators that place elements and change none; the positions themselves are counted by the length.
_PLACING = frozenset(("arange", "getitem", "reshape", "expand", "unsqueeze", "repeat", "broadcast_to", "transpose"))
_FASTEST = 8.0  # radians a position: beyond, float32 holds no angle of a longer text, and nothing shows a frequency
_POSITIONS = 256  # as many rows of a long table are tried


def find_tables(index: Index) -> list[RopeTable]:
    """The pairs of tables of a graph whose values are those that the configuration's rope type stands for."""
    by_angles: dict[int, dict[str, list[Node]]] = defaultdict(lambda: {"cos": [], "sin": []})
    found = []
    for node in index.in_order("cos", "sin"):
        angles = index.producer(node.args[0])
        if angles is not None and index.constant(angles.id):
            by_angles[angles.id][node.op].append(node)
    _join_alike(index, by_angles)
    for source, pair in by_angles.items():
        for cosine, sine in zip(pair["cos"], pair["sin"], strict=False):
            found.append(_table(index, source, cosine, sine))
    for node in index.in_order("polar"):
        angles, length = index.producer(node.args[1]), index.producer(node.args[0])
        if angles is not None and index.constant(angles.id) and length is not None and length.op == "ones_like":
            found.append(_table(index, angles.id, node, node))
    return [table for table in found if table is not None]


def _join_alike(index: Index, by_angles: dict[int, dict[str, list[Node]]]) -> None:
    """Cosines and sines of angles that are computed twice over, in the same way, belong together."""
    single = [source for source, pair in by_angles.items() if not pair["cos"] or not pair["sin"]]
    first: dict[Any, int] = {}
    for source in single:
        kept = first.setdefault(spelled(index, index.ancestors(source), {}), source)
        if kept != source:
            for op, nodes in by_angles.pop(source).items():
                by_angles[kept][op].extend(nodes)


def probe(index: Index, table: int) -> tuple[Array, dict[int, Array]] | None:
    """Positions to try a table at, and the known values that set them; None unless it reads positions in one place.

    They are far apart, and near to each other where the table was made for few positions.
    """
    counts = [node for node in index.ancestors(table) if node.op == "arange" and node.shape is not None]
    seeds = [node for node in counts if _counts_tokens(node)]
    seeds = seeds or [node for node in counts if node.shape == _rows(index, table) and _is_cut(index, node)]
    if len(seeds) != 1 or seeds[0].shape is None or not _counts_up(seeds[0]):
        return None
    counted = np.arange(min(unwrap(seeds[0].shape[0]), _POSITIONS))
    for positions in (counted**3 + 1, 2 * counted + 1):
        try:
            evaluate(index.nodes, table, {seeds[0].id: positions})
        except UnevaluableError:
            continue
        return positions, {seeds[0].id: positions}
    return None


def _counts_up(arange: Node) -> bool:
    """Whether it is 0, 1, 2, ...: positions that start elsewhere, leave some out or run back are others."""
    bounds = [number(arg) for arg in arange.args]
    return (len(bounds) == 1 or equal(bounds[0], 0)) and all(equal(each, 1) for each in bounds[2:])


def _is_cut(index: Index, arange: Node) -> bool:
    """Whether these are all positions up to a fixed length, and what is made of them is cut to those of the tokens."""
    pending, seen = [arange.id], set[int]()
    while _counts_up(arange) and pending:
        for user in index.users.get(pending.pop(), ()):
            node = index.nodes.get(user)
            if node is None or user in seen or not index.constant(user):
                continue
            if any(isinstance(size, Scalar) and "sequence" in symbols_of(size.expr) for size in node.shape or ()):
                return True
            seen.add(user)
            pending.append(user)
    return False


def _rows(index: Index, table: int) -> tuple[Any, ...]:
    """The size of the last dimension but one of the angles that a table is made of."""
    node = next((each for each in index.ancestors(table)[::-1] if each.shape is not None and len(each.shape) > 1), None)
    return node.shape[-2:-1] if node is not None and node.shape is not None else ()


def _counts_tokens(arange: Node) -> bool:
    return any(isinstance(arg, Scalar) and "sequence" in symbols_of(arg.expr) for arg in arange.args)


def _table(index: Index, angles: int, cosine: Node, sine: Node) -> RopeTable | None:
    chains = [[node, *index.follow(node, lambda user: _scales(index, user))] for node in (cosine, sine)]
    (cosine_factor, cosine_end), (sine_factor, sine_end) = ((_factor(index, chain), chain[-1]) for chain in chains)
    probed = probe(index, angles)
    if cosine_factor != sine_factor or cosine_end.dtype != sine_end.dtype or probed is None:
        return None
    positions, known = probed
    try:
        values = evaluate(index.nodes, angles, known)
    except UnevaluableError:
        return None
    named = list(bases(index, angles))
    found = next((each for each in named if _are_angles(values, positions, each.frequencies)), None)
    if found is None and (own := _own_basis(index, angles, values, positions)) is not None:
        told = _told(index, angles, own, named)
        found = told if _are_angles(values, positions, told.frequencies) else None
    return None if found is None else described_table(index, found, cosine_end, sine_end, cosine_factor, cosine)


def _told(index: Index, angles: int, own: Basis, named: list[Basis]) -> Basis:
    """Frequencies of the source's own, with the type and base of the formula that gives them, where one does."""
    for basis in named:
        default = unwrap(basis.theta) ** (-np.arange(0, unwrap(basis.dim), 2) / unwrap(basis.dim))
        found = formula(index.ancestors(angles), default, own.frequencies)
        if found is not None:
            return Basis(found, "", basis.theta, basis.dim, own.frequencies, own.own)
    return own


def _own_basis(index: Index, angles: int, values: Array, positions: Array) -> Basis | None:
    """The frequencies that angles show, where no formula says them and the length of the input does not change them."""
    for node in index.ancestors(angles):
        scalars = [arg for arg in (*node.args, *node.kwargs.values()) if isinstance(arg, Scalar)]
        if node.op not in _PLACING and any(symbols_of(each.expr) for each in scalars):
            return None
    if values.ndim < 2 or not values.size or positions[0] == 0:
        return None
    found = np.reshape(values, (-1, values.shape[-1]))[0] / positions[0]
    if not np.all(np.abs(found) < _FASTEST):
        return None
    half = len(found) // 2
    if np.array_equal(found[:half], found[half:]):
        found = found[:half]
    elif np.array_equal(found[::2], found[1::2]):
        found = found[::2]
    return Basis("", "", 0.0, 2 * len(found), found, tuple(map(float, found)))


def described_table(index: Index, basis: Basis, cosine: Node, sine: Node, scaling: float, place: Node) -> RopeTable:
    """The fact for two tables that were found to follow a basis."""
    nodes = index.exclusive(index.ancestors(cosine.id, sine.id), cosine, sine)
    described = basis.rope_type, basis.parameters, basis.theta, basis.dim
    return RopeTable(cosine.id, sine.id, *described, scaling, place.frame, place.where, nodes, basis.own)


@dataclass(slots=True)
class Basis:
    """What a table may be made of: the numbers that its nodes name, and the frequencies that they stand for."""

    rope_type: str
    parameters: str
    theta: Number
    dim: Number
    frequencies: Array
    own: tuple[float, ...] = ()


def _scales(index: Index, node: Node) -> bool:
    return is_cast(node) or (node.op == "mul" and split_number(node, index.producer) is not None)


def _factor(index: Index, chain: list[Node]) -> float:
    factor = 1.0
    for node in chain:
        if node.op == "mul" and (parts := split_number(node, index.producer)):
            factor *= unwrap(parts[1])
    return factor


def bases(index: Index, angles: int) -> Iterator[Basis]:
    """What the subgraph of a table names: ``theta ** (arange(0, dim, 2) / dim)``, under the configuration's type."""
    for node in index.ancestors(angles):
        if node.op == "exp" and (raised := exponential(index, node)) is not None:
            values = frequencies("default", unwrap(raised[0]), unwrap(raised[1]), {}, {})
            if values is not None:
                yield Basis("default", "", *raised, values)
            continue
        theta, exponent = number(node.args[0]) if node.op == "pow" else None, index.producer(node.args[-1])
        dim = _dimension(index, exponent) if theta is not None and exponent is not None else None
        if theta is None or dim is None:
            continue
        if isinstance(theta, Scalar) and symbols_of(theta.expr):  # a base that changes with the length has no one table
            values = frequencies("dynamic", unwrap(theta), unwrap(dim), {}, {})
            if values is not None:
                yield Basis("dynamic", "", theta, dim, values, tuple(map(float, values)))
            continue
        path = _described(theta)
        parameters = _content(path, index.graph.config)
        rope_type = parameters.get("rope_type") or "default"
        try:
            values = frequencies(rope_type, unwrap(theta), unwrap(dim), parameters, index.graph.config)
        except (ArithmeticError, KeyError, TypeError, ValueError):
            continue  # the description lacks what its rope type needs
        if values is not None:
            yield Basis(rope_type, path, theta, dim, values)


def _dimension(index: Index, exponent: Node) -> Number | None:
    """The dim of ``arange(0, dim, 2) / dim``, in whatever way it is spelled, with either sign."""
    if not index.constant(exponent.id):
        return None
    try:
        shares = np.abs(evaluate(index.nodes, exponent.id, {}))
    except UnevaluableError:
        return None
    if shares.ndim != 1 or shares.size == 0:
        return None
    nearest_first = index.ancestors(exponent.id)[::-1]
    named = [size for node in nearest_first for arg in node.args if (size := number(arg)) is not None]
    for dim in (*named, *(combine("mul", 2, size) for size in named)):
        if unwrap(dim) >= 2 and np.allclose(shares, 2 * np.arange(shares.size) / unwrap(dim)):
            return dim
    return None


def _described(theta: Number) -> str:
    """The path of the dictionary that theta was read from, empty where it was not read from one."""
    path = str(theta.expr.args[0]) if isinstance(theta, Scalar) and theta.expr.op == "field" else ""
    return path.removesuffix("['rope_theta']") if path.endswith("['rope_theta']") else ""


def _content(path: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a configuration holds under a path such as ``rope_parameters['full_attention']``; nothing for no path."""
    content: Any = config if path else {}
    for key in re.findall(r"\w+", path):
        content = content.get(key) if isinstance(content, Mapping) else None
    return content if isinstance(content, Mapping) else {}


def frequencies_of(table: RopeTable, config: Mapping[str, Any]) -> Array:
    """``[rotary_dim / 2]`` radians a position, of a table that was recognised under a configuration."""
    if table.own:
        return np.asarray(table.own)
    parameters = _content(table.parameters, config)
    values = frequencies(table.rope_type, unwrap(table.theta), unwrap(table.rotary_dim), parameters, config)
    assert values is not None, "a table is only recognised by its frequencies"
    return values


def _are_angles(values: Array, positions: Array, wanted: Array) -> bool:
    """Whether ``values`` is ``[..., sequence, d]`` of position times frequency, each once or each twice."""
    layouts = (wanted, np.concatenate((wanted, wanted)), np.repeat(wanted, 2))
    if values.ndim < 2 or values.shape[-2] != len(positions):
        return False
    return any(
        values.shape[-1] == len(layout) and np.allclose(values, positions[:, None] * layout, rtol=1e-6, atol=0)
        for layout in layouts
    )
