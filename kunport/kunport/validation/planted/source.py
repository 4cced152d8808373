"""An adapter's source as a tree in which bugs are planted."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


class NotApplicableError(Exception):
    """There is no place for a bug of this kind in an adapter; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which module computes something else now.

    Attributes:
        owner: the class whose code was changed, or that builds the module.
        attribute: of the module in it; "" where the owner itself is wrong.
        layers: not one module but all of these layers'.
    """

    owner: str = ""
    attribute: str = ""
    layers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """``self.attribute = factory(...)`` in the constructor of a class; the call may be one branch of a choice."""

    owner: ast.ClassDef
    attribute: str
    call: ast.Call

    @property
    def place(self) -> Place:
        return Place(self.owner.name, self.attribute)

    def keyword(self, name: str) -> ast.keyword | None:
        return next((keyword for keyword in self.call.keywords if keyword.arg == name), None)

    def drop(self, name: str) -> Place:
        """Build it without a keyword."""
        self.call.keywords = [keyword for keyword in self.call.keywords if keyword.arg != name]
        return self.place

    def change(self, name: str, formula: str) -> Place:
        """Build it with a keyword that it has changed: ``x`` in the formula is the value."""
        keyword = self.keyword(name)
        assert keyword is not None
        keyword.value = expression(formula, x=keyword.value)
        return self.place


class Source:
    """The tree of an adapter's file, and the configuration that it was generated for.

    ``config`` is the text model's, as ``config.json`` gives it.
    """

    def __init__(self, text: str, config: Mapping[str, Any]) -> None:
        self.tree = ast.parse(text)
        self.config = config

    def text(self) -> str:
        return ast.unparse(ast.fix_missing_locations(self.tree)) + "\n"

    @property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    def built(self, *factories: str) -> list[Built]:
        """Everything built by one of these, in the order of the file."""
        found = []
        for owner in self.classes:
            for node in ast.walk(owner):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                    for call in calls(node.value):
                        if isinstance(call.func, ast.Name) and call.func.id in factories:
                            found.append(Built(owner, node.targets[0].attr, call))
        return found

    def one(self, *factories: str, having: str = "", last: bool = False) -> Built:
        """The first built by one of these, or the last, that is given a keyword."""
        found = [each for each in self.built(*factories) if not having or each.keyword(having)]
        if not found:
            what = f" with {having}" if having else ""
            raise NotApplicableError(f"the adapter builds no {' or '.join(factories)}{what}")
        return found[-1 if last else 0]

    def layer(self) -> ast.ClassDef:
        """The class of the decoder layers: what the lambda of ``make_layers`` builds."""
        for call in calls(self.tree):
            if isinstance(call.func, ast.Name) and call.func.id == "make_layers":
                for inner in calls(call):
                    for owner in self.classes:
                        if isinstance(inner.func, ast.Name) and inner.func.id == owner.name:
                            return owner
        raise NotApplicableError("the adapter makes no layers")

    def model(self) -> ast.ClassDef:
        """The class that holds the layers."""
        for owner in self.classes:
            if any(isinstance(call.func, ast.Name) and call.func.id == "make_layers" for call in calls(owner)):
                return owner
        raise NotApplicableError("the adapter makes no layers")

    @property
    def root(self) -> ast.ClassDef:
        return self.classes[-1]


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def method(owner: ast.ClassDef, name: str) -> ast.FunctionDef:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise NotApplicableError(f"{owner.name} has no {name}")


def is_self(node: ast.AST, *attributes: str) -> bool:
    """Whether a node is ``self.attribute``, of one of these."""
    return isinstance(node, ast.Attribute) and is_name(node.value, "self") and node.attr in attributes


def is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def expression(text: str, **parts: ast.expr) -> ast.expr:
    """An expression with some of its names replaced."""
    tree = ast.parse(text, mode="eval").body
    replaced: ast.expr = replace(tree, lambda node: parts.get(node.id) if isinstance(node, ast.Name) else None)
    return replaced


def statements(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def replace(tree: Any, change: Any) -> Any:
    """The tree with every node for which ``change`` gives another one replaced; children of those are left alone."""

    class Change(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            found = change(node)
            return self.generic_visit(node) if found is None else found

    return Change().visit(tree)


def replace_once(tree: ast.AST, change: Any, reason: str) -> None:
    """The same in place, of the first such node only; `NotApplicableError` where there is none."""
    done = False

    def first(node: ast.AST) -> ast.AST | None:
        nonlocal done
        found = None if done else change(node)
        done = done or found is not None
        return found

    replace(tree, first)
    if not done:
        raise NotApplicableError(reason)
