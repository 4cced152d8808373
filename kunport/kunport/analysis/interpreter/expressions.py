"""Evaluation of expressions, one function for each kind of node."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kunport_codegen.expression import Expr, Scalar

from kunport.analysis.interpreter import choices, operations
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError
from kunport.analysis.values import Function, Native, OrderedSet, Super, Tensor, Unknown, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


def evaluate(interpreter: Interpreter, node: ast.expr, scope: Scope) -> Value:
    """The value of an expression.

    Raises:
        NotUnderstoodError: the expression is of a kind, or has operands, that the analysis does not know.
    """
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise NotUnderstoodError(f"an expression of kind {type(node).__name__}")
    taken = interpreter.trace.taken
    position = len(taken)
    value = handler(interpreter, node, scope)
    return choices.picked(interpreter, value, position) if len(taken) > position else value


def _name(interpreter: Interpreter, node: ast.Name, scope: Scope) -> Value:
    if node.id in scope.picked:
        choices.of_name(interpreter, scope.picked[node.id])
    return interpreter.lookup(node.id, scope)


def _constant(interpreter: Interpreter, node: ast.Constant, scope: Scope) -> Value:
    if isinstance(node.value, complex):
        raise NotUnderstoodError("a complex number")
    return node.value


def _formatted(interpreter: Interpreter, node: ast.JoinedStr, scope: Scope) -> Value:
    parts = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
    return "".join(str(interpreter.pin(evaluate(interpreter, part, scope))) for part in parts)


def _attribute(interpreter: Interpreter, node: ast.Attribute, scope: Scope) -> Value:
    value = evaluate(interpreter, node.value, scope)
    interpreter.at(node, scope)
    return interpreter.attribute(value, node.attr)


def _elements(interpreter: Interpreter, elements: list[ast.expr], scope: Scope) -> Iterator[Value]:
    for element in elements:
        if isinstance(element, ast.Starred):
            yield from interpreter.iterate(evaluate(interpreter, element.value, scope))
        else:
            yield evaluate(interpreter, element, scope)


def _tuple(interpreter: Interpreter, node: ast.Tuple, scope: Scope) -> Value:
    return tuple(_elements(interpreter, node.elts, scope))


def _list(interpreter: Interpreter, node: ast.List, scope: Scope) -> Value:
    return list(_elements(interpreter, node.elts, scope))


def _set(interpreter: Interpreter, node: ast.Set, scope: Scope) -> Value:
    elements = [interpreter.pin(element) for element in _elements(interpreter, node.elts, scope)]
    if any(map(_can_change, elements)):
        raise RaisedError("TypeError", "a set of what can change")
    return OrderedSet(elements)


def _dict(interpreter: Interpreter, node: ast.Dict, scope: Scope) -> Value:
    result: dict[Value, Value] = {}
    for key, each in zip(node.keys, node.values, strict=True):
        value = evaluate(interpreter, each, scope)
        if key is None:
            result.update(interpreter.mapping(value))
        else:
            result[_key(interpreter, key, scope)] = value
    return result


def _key(interpreter: Interpreter, node: ast.expr, scope: Scope) -> Value:
    """The key of an entry; what can change is none."""
    key = interpreter.pin(evaluate(interpreter, node, scope))
    if _can_change(key):
        raise RaisedError("TypeError", "a key of what can change")
    return key


def _can_change(key: Value) -> bool:
    return any(map(_can_change, key)) if isinstance(key, tuple) else isinstance(key, list | dict)


def _binary(interpreter: Interpreter, node: ast.BinOp, scope: Scope) -> Value:
    left, right = evaluate(interpreter, node.left, scope), evaluate(interpreter, node.right, scope)
    interpreter.at(node, scope)
    return operations.binary(interpreter, type(node.op), left, right)


def _boolean(interpreter: Interpreter, node: ast.BoolOp, scope: Scope) -> Value:
    """The first operand that decides; where that is a plain boolean, those before it decide nothing."""
    both = isinstance(node.op, ast.And)
    result = evaluate(interpreter, node.values[0], scope)
    passed: list[Scalar] = []
    try:
        for each in node.values[1:]:
            if isinstance(result, Tensor):
                result = _undecided(interpreter, result, evaluate(interpreter, each, scope), both)
            elif isinstance(result, Scalar) and result.value is both:
                operations.refuse_turns(result)
                passed.append(result)
                result = evaluate(interpreter, each, scope)
            elif interpreter.truth(result) == both:
                result = evaluate(interpreter, each, scope)
            else:
                break
    finally:
        if result is not (not both):
            for scalar in passed:
                interpreter.truth(scalar)
    return result


def _undecided(interpreter: Interpreter, left: Tensor, right: Value, both: bool) -> Value:
    """``and`` and ``or`` of conditions of which only the data tell the first."""
    if isinstance(right, Tensor | Unknown):
        return interpreter.operator("logical_and" if both else "logical_or", (left, right), {})
    if interpreter.truth(right) == both:
        return left
    return not both


def _unary(interpreter: Interpreter, node: ast.UnaryOp, scope: Scope) -> Value:
    operand = evaluate(interpreter, node.operand, scope)
    interpreter.at(node, scope)
    if not isinstance(node.op, ast.Not):
        return operations.unary(interpreter, type(node.op), operand)
    if isinstance(operand, Scalar):
        return Scalar(not operand.value, Expr("not", (operand.expr,)))
    if isinstance(operand, Tensor):
        return interpreter.operator("logical_not", (operand,), {})
    return not interpreter.truth(operand)


def _comparison(interpreter: Interpreter, node: ast.Compare, scope: Scope) -> Value:
    left = evaluate(interpreter, node.left, scope)
    result: Value = True
    for operator, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluate(interpreter, comparator, scope)
        interpreter.at(node, scope)
        result = operations.compare(interpreter, operations.COMPARISONS[type(operator)], left, right)
        if len(node.ops) > 1 and not interpreter.truth(result):
            break
        left = right
    return result


def _conditional(interpreter: Interpreter, node: ast.IfExp, scope: Scope) -> Value:
    position = len(interpreter.trace.taken)
    taken = node.body if interpreter.truth(evaluate(interpreter, node.test, scope)) else node.orelse
    if len(interpreter.trace.taken) > position:
        choices.of_line(interpreter, position)
    return evaluate(interpreter, taken, scope)


def _lambda(interpreter: Interpreter, node: ast.Lambda, scope: Scope) -> Value:
    return interpreter.make_function(node, scope)


def _walrus(interpreter: Interpreter, node: ast.NamedExpr, scope: Scope) -> Value:
    value = evaluate(interpreter, node.value, scope)
    target = scope
    while target.function is None and target.parent is not None:  # it binds outside of comprehensions
        target = target.parent
    interpreter.bind(node.target.id, value, target)
    return value


def _turns(
    interpreter: Interpreter, around: ast.expr, clauses: list[ast.comprehension], scope: Scope
) -> Iterator[Scope]:
    """The scope of each turn of a comprehension's loops."""
    clause, *further = clauses
    if clause.is_async:
        raise NotUnderstoodError("an asynchronous comprehension")
    inner = Scope(scope.namespace, parent=scope)
    position, counted = len(interpreter.trace.taken), len(interpreter.trace.counts)
    values = evaluate(interpreter, clause.iter, scope)
    fields = interpreter.trace.picking(position)
    choices.loop(interpreter, around, values, fields, counted)
    for value in interpreter.iterate(values):
        interpreter.spend(0)  # calls inside contain what they lack: once all is spent, no further turn begins
        interpreter.assign(clause.target, choices.labelled(value, fields), inner)
        if all(interpreter.truth(evaluate(interpreter, condition, inner)) for condition in clause.ifs):
            if further:
                yield from _turns(interpreter, around, further, inner)
            else:
                yield inner


def _list_comprehension(interpreter: Interpreter, node: ast.ListComp | ast.GeneratorExp, scope: Scope) -> Value:
    return [evaluate(interpreter, node.elt, turn) for turn in _turns(interpreter, node, node.generators, scope)]


def _set_comprehension(interpreter: Interpreter, node: ast.SetComp, scope: Scope) -> Value:
    turns = _turns(interpreter, node, node.generators, scope)
    return OrderedSet(interpreter.pin(evaluate(interpreter, node.elt, turn)) for turn in turns)


def _dict_comprehension(interpreter: Interpreter, node: ast.DictComp, scope: Scope) -> Value:
    return {
        _key(interpreter, node.key, turn): evaluate(interpreter, node.value, turn)
        for turn in _turns(interpreter, node, node.generators, scope)
    }


def _slice(interpreter: Interpreter, node: ast.Slice, scope: Scope) -> Value:
    bounds = (node.lower, node.upper, node.step)
    return slice(*(None if each is None else evaluate(interpreter, each, scope) for each in bounds))


def _subscript(interpreter: Interpreter, node: ast.Subscript, scope: Scope) -> Value:
    value = evaluate(interpreter, node.value, scope)
    key = evaluate(interpreter, node.slice, scope)
    interpreter.at(node, scope)
    return interpreter.item(value, key)


def _call(interpreter: Interpreter, node: ast.Call, scope: Scope) -> Value:
    function = evaluate(interpreter, node.func, scope)
    if isinstance(function, Native) and function.lazy:
        return None
    args, kwargs = call_arguments(interpreter, node, scope)
    interpreter.at(node, scope)
    if isinstance(function, Native) and function.name == "builtins.super":
        return _super(interpreter, scope, args)
    if isinstance(function, Native) and function.name == "builtins.locals":
        return dict(scope.variables)
    return interpreter.call(function, args, kwargs)


def call_arguments(interpreter: Interpreter, node: ast.Call, scope: Scope) -> tuple[list[Value], dict[str, Value]]:
    """The arguments of a call, by position and by name."""
    args = list(_elements(interpreter, node.args, scope))
    kwargs: dict[str, Value] = {}
    for argument in node.keywords:
        value = evaluate(interpreter, argument.value, scope)
        if argument.arg is None:
            kwargs.update({str(key): each for key, each in interpreter.mapping(value).items()})
        else:
            kwargs[argument.arg] = value
    return args, kwargs


def _super(interpreter: Interpreter, scope: Scope, args: list[Value]) -> Value:
    if args:
        return Super(args[0], args[1] if len(args) > 1 else None)
    inner: Scope | None = scope
    while inner is not None:
        if isinstance(inner.function, Function) and inner.function.owner is not None:
            return Super(inner.function.owner, inner.receiver)
        inner = inner.parent
    raise NotUnderstoodError("super() outside of a method")


def _yield(interpreter: Interpreter, node: ast.Yield | ast.YieldFrom, scope: Scope) -> None:
    """Generators run to their end when they are called; what they give is a list."""
    while scope.function is None and scope.parent is not None:
        scope = scope.parent
    scope.yielded = [] if scope.yielded is None else scope.yielded
    if isinstance(node, ast.YieldFrom):
        scope.yielded.extend(interpreter.iterate(evaluate(interpreter, node.value, scope)))
    else:
        scope.yielded.append(None if node.value is None else evaluate(interpreter, node.value, scope))


_HANDLERS: dict[type[ast.expr], Callable[[Interpreter, Any, Scope], Value]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.Compare: _comparison,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.IfExp: _conditional,
    ast.Constant: _constant,
    ast.JoinedStr: _formatted,
    ast.Slice: _slice,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.Lambda: _lambda,
    ast.NamedExpr: _walrus,
    ast.ListComp: _list_comprehension,
    ast.GeneratorExp: _list_comprehension,
    ast.SetComp: _set_comprehension,
    ast.DictComp: _dict_comprehension,
}
