"""Functions and calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kunport_codegen.expression import Scalar
from kunport_codegen.graph import Frame

from kunport.analysis.interpreter import attributes, limits, operations, statements
from kunport.analysis.interpreter.expressions import evaluate
from kunport.analysis.interpreter.replay import NOTHING
from kunport.analysis.interpreter.scope import Scope
from kunport.analysis.interpreter.signals import NotUnderstoodError, RaisedError, Return
from kunport.analysis.parameters import defaults, keyword_only, positional
from kunport.analysis.shapes import ShapeError
from kunport.analysis.values import (
    Bound,
    Function,
    Instance,
    Native,
    NativeClass,
    Opaque,
    Partial,
    SourceClass,
    Unknown,
    Value,
)
from kunport.errors import KunportError

if TYPE_CHECKING:
    from kunport.analysis.interpreter import Interpreter

_DEPTH = 60  # of calls inside calls, before they are taken to be endless


def call(interpreter: Interpreter, value: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``value(*args, **kwargs)``; what the source's functions fail at becomes an unknown value.

    Raises:
        RaisedError: the source raises, and something around catches.
        NotUnderstoodError: the call itself makes no sense to the analysis.
    """
    if isinstance(value, Bound):
        return call(interpreter, value.function, [value.receiver, *args], kwargs)
    if isinstance(value, Function):
        return _contained(interpreter, value, args, kwargs)
    if isinstance(value, Native):
        return call_native(interpreter, value, args, kwargs)
    if isinstance(value, Instance):
        return _call_instance(interpreter, value, args, kwargs)
    if isinstance(value, SourceClass | NativeClass):
        return interpreter.instantiate(value, args, kwargs)
    if isinstance(value, Partial):
        return call(interpreter, value.function, [*value.args, *args], {**value.kwargs, **kwargs})
    if isinstance(value, Opaque):
        return interpreter.unknown(f"{value.name} is {value.reason}", *args, *kwargs.values())
    if isinstance(value, Unknown):
        return interpreter.unknown(value.reason, value, *args, *kwargs.values())
    raise NotUnderstoodError(f"a call of {operations.describe(value)}")


def call_native(interpreter: Interpreter, value: Native, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not value.raw:
        args = [_decided(interpreter, each) for each in args]
        kwargs = {key: _decided(interpreter, each) for key, each in kwargs.items()}
    try:
        return value.call(interpreter, *args, **kwargs)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        if interpreter.debug:
            raise
        raise NotUnderstoodError(f"{value.name} with arguments that the analysis does not know ({error})") from error


def _decided(interpreter: Interpreter, value: Value) -> Value:
    """Flags, names and absent values decide what a native does; numbers only flow through it."""
    return interpreter.pin(value) if isinstance(value, Scalar) and isinstance(value.value, bool | str | None) else value


def _call_instance(interpreter: Interpreter, value: Instance, args: list[Value], kwargs: dict[str, Value]) -> Value:
    method = interpreter.find(value, "__call__")
    if method is None:
        unread = attributes.unread_ancestor(value.cls)
        raise NotUnderstoodError(f"a call of an object of {unread or value.cls.short}")
    return call(interpreter, method, args, kwargs)


def call_module(interpreter: Interpreter, value: Instance, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What a module's own ``__call__`` does: its forward, in a frame of its own or repeated from an earlier run."""
    if (repeated := interpreter.replay.repeat(interpreter, value, (args, kwargs))) is not NOTHING:
        return repeated
    if sum(each is value for each in interpreter.running) > limits.NESTED:
        raise NotUnderstoodError(f"{value.cls.short} calls itself, more than {limits.NESTED} times one in the other")
    interpreter.running.append(value)
    try:
        with interpreter.replay.recorded(interpreter, value, (args, kwargs)) as run:
            with interpreter.trace.entered("module", value.cls.short, value.path or "") as frame:
                result = run_forward(interpreter, value, args, kwargs, frame)
            if run is not None:
                run.result = result
    finally:
        interpreter.running.pop()
    return result


def run_forward(
    interpreter: Interpreter, value: Instance, args: list[Value], kwargs: dict[str, Value], frame: Frame
) -> Value:
    """A module's forward, in the frame that is open for it."""
    own = value.attributes.get("forward")  # what the source gave this object alone is called as it is
    method = interpreter.find(value, "forward") if own is None else own
    if method is None:
        raise NotUnderstoodError(f"{value.cls.short} has no forward")
    function = method.function if isinstance(method, Bound) else method
    if own is None and isinstance(function, Function):
        result = _contained(interpreter, function, [value, *args], kwargs, frame)
    else:
        frame.inputs = interpreter.arguments({str(key): each for key, each in enumerate(args)} | kwargs)
        result = call(interpreter, method, args, kwargs)
    frame.output = interpreter.argument_or_none(result)
    return result


def _contained(
    interpreter: Interpreter,
    function: Function,
    args: list[Value],
    kwargs: dict[str, Value],
    frame: Frame | None = None,
) -> Value:
    """Runs a function of the source; a failure inside becomes an unknown value, a constructor's a partial object."""
    where, depth = interpreter.trace.where, interpreter.depth
    try:
        return _run(interpreter, function, args, kwargs, frame)
    except KunportError:
        raise
    except Exception as problem:
        if not interpreter.contains(problem):
            raise
        if isinstance(problem, NotUnderstoodError | ShapeError):
            reason = problem.reason
        elif isinstance(problem, OverflowError | MemoryError):
            reason = f"{function.name} computes with a number that is too large"
        elif isinstance(problem, ZeroDivisionError):
            reason = f"{function.name} divides by zero"
        elif isinstance(problem, RaisedError):
            reason = f"{function.name} raises {problem}"
        elif isinstance(problem, RecursionError):
            reason = f"{function.name} nests calls and expressions too deeply"
        else:
            reason = f"the analysis itself fails at {function.name} ({type(problem).__name__}: {problem})"
        result = interpreter.unknown(reason, *args, *kwargs.values())
        if function.name == "__init__" and args and isinstance(args[0], Instance):
            args[0].partial = args[0].partial or f"{interpreter.trace.where}: {reason}"
            return None
        return result
    finally:
        interpreter.trace.where, interpreter.depth = where, depth


def _run(
    interpreter: Interpreter, function: Function, args: list[Value], kwargs: dict[str, Value], frame: Frame | None
) -> Value:
    try:
        return _run_in(interpreter, function, args, kwargs, frame)
    finally:
        interpreter.trace.returned = len(interpreter.trace.taken)


def _run_in(
    interpreter: Interpreter, function: Function, args: list[Value], kwargs: dict[str, Value], frame: Frame | None
) -> Value:
    interpreter.spend(limits.CALL)
    interpreter.depth += 1
    if interpreter.depth > _DEPTH:
        raise NotUnderstoodError(f"calls nested deeper than {_DEPTH}")
    scope = scope_of(interpreter, function, args, kwargs)
    if isinstance(function.node, ast.Lambda):
        return evaluate(interpreter, function.node.body, scope)
    if frame is not None or function.name == "__init__":
        if frame is not None:
            frame.inputs = interpreter.arguments(scope.variables)
        return _body(interpreter, function.node, scope)
    with interpreter.trace.entered("function", function.name) as own:
        own.inputs = interpreter.arguments(scope.variables)
        result = _body(interpreter, function.node, scope)
        own.output = interpreter.argument_or_none(result)
    return result


def _body(interpreter: Interpreter, node: ast.FunctionDef, scope: Scope) -> Value:
    signal = statements.block(interpreter, node.body, scope)
    if scope.yielded is not None:
        return scope.yielded
    return signal.value if isinstance(signal, Return) else None


def scope_of(interpreter: Interpreter, function: Function, args: list[Value], kwargs: dict[str, Value]) -> Scope:
    """The scope of a call of a function, its parameters bound."""
    scope = Scope(function.scope.namespace, function.scope, function=function, receiver=args[0] if args else None)
    parameters, variables = function.node.args, scope.variables
    rest, named = list(args), dict(kwargs)
    for name in positional(parameters):
        if rest:
            variables[name] = rest.pop(0)
        else:
            variables[name] = _argument(function, name, named)
    if parameters.vararg is not None:
        variables[parameters.vararg.arg] = tuple(rest)
        rest = []
    for name in keyword_only(parameters):
        variables[name] = _argument(function, name, named)
    if parameters.kwarg is not None:
        variables[parameters.kwarg.arg] = named
        named = {}
    if rest or named:
        surplus = ", ".join(named) or f"{len(rest)} more"
        raise RaisedError("TypeError", f"{function.name} does not take {surplus}")
    return scope


def _argument(function: Function, name: str, named: dict[str, Value]) -> Value:
    if name in named:
        return named.pop(name)
    if name in function.defaults:
        return function.defaults[name]
    raise RaisedError("TypeError", f"{function.name} needs {name}")


def make_function(
    interpreter: Interpreter,
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    scope: Scope,
    owner: SourceClass | None = None,
) -> Value:
    """The value of a ``def`` or ``lambda``, decorators applied."""
    if isinstance(node, ast.AsyncFunctionDef):
        return Opaque(node.name, "a coroutine")
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    outside = scope.parent if scope.cls is not None and scope.parent is not None else scope
    function = Function(name, node, outside, owner)
    for parameter, default in defaults(node.args):
        function.defaults[parameter] = evaluate(interpreter, default, scope)
    return function if isinstance(node, ast.Lambda) else decorate(interpreter, function, node.decorator_list, scope)


def decorate(interpreter: Interpreter, value: Value, decorators: list[ast.expr], scope: Scope) -> Value:
    for node in reversed(decorators):
        if isinstance(node, ast.Attribute) and node.attr == "setter":
            prior = evaluate(interpreter, node.value, scope)
            prior.setter, value = value, prior
            continue
        decorator = evaluate(interpreter, node, scope)
        if isinstance(decorator, Opaque | Unknown):
            why = decorator.reason if isinstance(decorator, Unknown) else f"{decorator.name} is {decorator.reason}"
            return Opaque(value.name, f"wrapped by a decorator that is not known ({why})")
        value = call(interpreter, decorator, [value], {})
    return value
