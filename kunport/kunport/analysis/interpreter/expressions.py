"""Evaluation of expressions, one function for each kind of LibCST node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst
from kunport_codegen.expression import Expr, Scalar

from kunport.analysis.interpreter import operations
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import NotUnderstoodError
from kunport.analysis.values import Function, Native, OrderedSet, Super, Tensor, Unknown, Value

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter


def evaluate(interpreter: Interpreter, node: cst.BaseExpression, scope: Scope) -> Value:
    """The value of an expression.

    Raises:
        NotUnderstoodError: the expression is of a kind, or has operands, that the analysis does not know.
    """
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise NotUnderstoodError(f"an expression of kind {type(node).__name__}")
    return handler(interpreter, node, scope)


def _name(interpreter: Interpreter, node: cst.Name, scope: Scope) -> Value:
    return interpreter.lookup(node.value, scope)


def _integer(interpreter: Interpreter, node: cst.Integer, scope: Scope) -> Value:
    return int(node.value.replace("_", ""), 0)


def _float(interpreter: Interpreter, node: cst.Float, scope: Scope) -> Value:
    return float(node.value.replace("_", ""))


def _string(interpreter: Interpreter, node: cst.SimpleString | cst.ConcatenatedString, scope: Scope) -> Value:
    if isinstance(node, cst.ConcatenatedString):
        return str(evaluate(interpreter, node.left, scope)) + str(evaluate(interpreter, node.right, scope))
    return node.evaluated_value


def _formatted(interpreter: Interpreter, node: cst.FormattedString, scope: Scope) -> Value:
    parts = []
    for part in node.parts:
        if isinstance(part, cst.FormattedStringText):
            parts.append(part.value)
        else:
            assert isinstance(part, cst.FormattedStringExpression)
            parts.append(str(interpreter.pin(evaluate(interpreter, part.expression, scope))))
    return "".join(parts)


def _attribute(interpreter: Interpreter, node: cst.Attribute, scope: Scope) -> Value:
    value = evaluate(interpreter, node.value, scope)
    interpreter.at(node, scope)
    return interpreter.attribute(value, node.attr.value)


def _elements(interpreter: Interpreter, elements: Any, scope: Scope) -> Iterator[Value]:
    for element in elements:
        value = evaluate(interpreter, element.value, scope)
        if isinstance(element, cst.StarredElement):
            yield from interpreter.iterate(value)
        else:
            yield value


def _tuple(interpreter: Interpreter, node: cst.Tuple, scope: Scope) -> Value:
    return tuple(_elements(interpreter, node.elements, scope))


def _list(interpreter: Interpreter, node: cst.List, scope: Scope) -> Value:
    return list(_elements(interpreter, node.elements, scope))


def _set(interpreter: Interpreter, node: cst.Set, scope: Scope) -> Value:
    return OrderedSet(interpreter.pin(element) for element in _elements(interpreter, node.elements, scope))


def _dict(interpreter: Interpreter, node: cst.Dict, scope: Scope) -> Value:
    result: dict[Value, Value] = {}
    for element in node.elements:
        value = evaluate(interpreter, element.value, scope)
        if isinstance(element, cst.DictElement):
            result[interpreter.pin(evaluate(interpreter, element.key, scope))] = value
        else:
            result.update(interpreter.mapping(value))
    return result


def _binary(interpreter: Interpreter, node: cst.BinaryOperation, scope: Scope) -> Value:
    left, right = evaluate(interpreter, node.left, scope), evaluate(interpreter, node.right, scope)
    interpreter.at(node, scope)
    return operations.binary(interpreter, type(node.operator), left, right)


def _boolean(interpreter: Interpreter, node: cst.BooleanOperation, scope: Scope) -> Value:
    left = evaluate(interpreter, node.left, scope)
    both = isinstance(node.operator, cst.And)
    if isinstance(left, Tensor):
        return _undecided(interpreter, left, evaluate(interpreter, node.right, scope), both)
    if interpreter.truth(left) == both:
        return evaluate(interpreter, node.right, scope)
    return left


def _undecided(interpreter: Interpreter, left: Tensor, right: Value, both: bool) -> Value:
    """``and`` and ``or`` of conditions of which only the data tell the first."""
    if isinstance(right, Tensor | Unknown):
        return interpreter.operator("logical_and" if both else "logical_or", (left, right), {})
    if interpreter.truth(right) == both:
        return left
    return not both


def _unary(interpreter: Interpreter, node: cst.UnaryOperation, scope: Scope) -> Value:
    operand = evaluate(interpreter, node.expression, scope)
    interpreter.at(node, scope)
    if not isinstance(node.operator, cst.Not):
        return operations.unary(interpreter, type(node.operator), operand)
    if isinstance(operand, Scalar):
        return Scalar(not operand.value, Expr("not", (operand.expr,)))
    if isinstance(operand, Tensor):
        return interpreter.operator("logical_not", (operand,), {})
    return not interpreter.truth(operand)


def _comparison(interpreter: Interpreter, node: cst.Comparison, scope: Scope) -> Value:
    left = evaluate(interpreter, node.left, scope)
    result: Value = True
    for target in node.comparisons:
        right = evaluate(interpreter, target.comparator, scope)
        interpreter.at(node, scope)
        result = operations.compare(interpreter, operations.COMPARISONS[type(target.operator)], left, right)
        if len(node.comparisons) > 1 and not interpreter.truth(result):
            break
        left = right
    return result


def _conditional(interpreter: Interpreter, node: cst.IfExp, scope: Scope) -> Value:
    taken = node.body if interpreter.truth(evaluate(interpreter, node.test, scope)) else node.orelse
    return evaluate(interpreter, taken, scope)


def _lambda(interpreter: Interpreter, node: cst.Lambda, scope: Scope) -> Value:
    return interpreter.make_function(node, scope)


def _walrus(interpreter: Interpreter, node: cst.NamedExpr, scope: Scope) -> Value:
    value = evaluate(interpreter, node.value, scope)
    assert isinstance(node.target, cst.Name)
    target = scope
    while target.function is None and target.parent is not None:  # it binds outside of comprehensions
        target = target.parent
    interpreter.bind(node.target.value, value, target)
    return value


def _comprehension(interpreter: Interpreter, clause: cst.CompFor, scope: Scope) -> Iterator[Scope]:
    """The scope of each turn of a comprehension's loops."""
    if clause.asynchronous is not None:
        raise NotUnderstoodError("an asynchronous comprehension")
    inner = Scope(scope.namespace, parent=scope)
    for value in interpreter.iterate(evaluate(interpreter, clause.iter, scope)):
        interpreter.assign(clause.target, value, inner)
        if all(interpreter.truth(evaluate(interpreter, condition.test, inner)) for condition in clause.ifs):
            if clause.inner_for_in is not None:
                yield from _comprehension(interpreter, clause.inner_for_in, inner)
            else:
                yield inner


def _list_comprehension(interpreter: Interpreter, node: cst.ListComp | cst.GeneratorExp, scope: Scope) -> Value:
    return [evaluate(interpreter, node.elt, turn) for turn in _comprehension(interpreter, node.for_in, scope)]


def _set_comprehension(interpreter: Interpreter, node: cst.SetComp, scope: Scope) -> Value:
    turns = _comprehension(interpreter, node.for_in, scope)
    return OrderedSet(interpreter.pin(evaluate(interpreter, node.elt, turn)) for turn in turns)


def _dict_comprehension(interpreter: Interpreter, node: cst.DictComp, scope: Scope) -> Value:
    return {
        interpreter.pin(evaluate(interpreter, node.key, turn)): evaluate(interpreter, node.value, turn)
        for turn in _comprehension(interpreter, node.for_in, scope)
    }


def index(interpreter: Interpreter, node: cst.Subscript, scope: Scope) -> Value:
    """What stands between the brackets of a subscript."""
    parts: list[Value] = []
    for element in node.slice:
        part = element.slice
        if isinstance(part, cst.Slice):
            bounds = (part.lower, part.upper, part.step)
            parts.append(slice(*(None if each is None else evaluate(interpreter, each, scope) for each in bounds)))
        elif isinstance(part, cst.Index) and part.star:
            parts.extend(interpreter.iterate(evaluate(interpreter, part.value, scope)))
        else:
            assert isinstance(part, cst.Index)
            parts.append(evaluate(interpreter, part.value, scope))
    single = len(node.slice) == 1 and not isinstance(node.slice[0].comma, cst.Comma)
    return parts[0] if single and len(parts) == 1 else tuple(parts)


def _subscript(interpreter: Interpreter, node: cst.Subscript, scope: Scope) -> Value:
    value = evaluate(interpreter, node.value, scope)
    key = index(interpreter, node, scope)
    interpreter.at(node, scope)
    return interpreter.item(value, key)


def _call(interpreter: Interpreter, node: cst.Call, scope: Scope) -> Value:
    function = evaluate(interpreter, node.func, scope)
    if isinstance(function, Native) and function.lazy:
        return None
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    for argument in node.args:
        value = evaluate(interpreter, argument.value, scope)
        if argument.star == "*":
            args.extend(interpreter.iterate(value))
        elif argument.star == "**":
            kwargs.update({str(key): each for key, each in interpreter.mapping(value).items()})
        elif argument.keyword is not None:
            kwargs[argument.keyword.value] = value
        else:
            args.append(value)
    interpreter.at(node, scope)
    if isinstance(function, Native) and function.name == "builtins.super":
        return _super(interpreter, scope, args)
    return interpreter.call(function, args, kwargs)


def _super(interpreter: Interpreter, scope: Scope, args: list[Value]) -> Value:
    if args:
        return Super(args[0], args[1] if len(args) > 1 else None)
    inner: Scope | None = scope
    while inner is not None:
        if isinstance(inner.function, Function) and inner.function.owner is not None:
            return Super(inner.function.owner, inner.receiver)
        inner = inner.parent
    raise NotUnderstoodError("super() outside of a method")


def _yield(interpreter: Interpreter, node: cst.Yield, scope: Scope) -> None:
    """Generators run to their end when they are called; what they give is a list."""
    while scope.function is None and scope.parent is not None:
        scope = scope.parent
    scope.yielded = [] if scope.yielded is None else scope.yielded
    if isinstance(node.value, cst.From):
        scope.yielded.extend(interpreter.iterate(evaluate(interpreter, node.value.item, scope)))
    else:
        scope.yielded.append(None if node.value is None else evaluate(interpreter, node.value, scope))


def _ellipsis(interpreter: Interpreter, node: cst.Ellipsis, scope: Scope) -> Value:
    return ...


_HANDLERS: dict[type[cst.CSTNode], Callable[[Interpreter, Any, Scope], Value]] = {
    cst.Name: _name,
    cst.Attribute: _attribute,
    cst.Call: _call,
    cst.Subscript: _subscript,
    cst.BinaryOperation: _binary,
    cst.Comparison: _comparison,
    cst.BooleanOperation: _boolean,
    cst.UnaryOperation: _unary,
    cst.IfExp: _conditional,
    cst.Integer: _integer,
    cst.Float: _float,
    cst.SimpleString: _string,
    cst.ConcatenatedString: _string,
    cst.FormattedString: _formatted,
    cst.Ellipsis: _ellipsis,
    cst.Yield: _yield,
    cst.Tuple: _tuple,
    cst.List: _list,
    cst.Set: _set,
    cst.Dict: _dict,
    cst.Lambda: _lambda,
    cst.NamedExpr: _walrus,
    cst.ListComp: _list_comprehension,
    cst.GeneratorExp: _list_comprehension,
    cst.SetComp: _set_comprehension,
    cst.DictComp: _dict_comprehension,
}
