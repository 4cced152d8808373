import contextlib
from types import SimpleNamespace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kunport_codegen import expression as symbolic
from kunport_model_adapters.expressions import ExpressionError, evaluate, fields, parse

CONFIG = SimpleNamespace(
    hidden_size=64,
    eps=1e-5,
    act="silu",
    window=None,
    tied=True,
    types=["sliding", "full"],
    rope={"rope_theta": 1e4, "full": {"factor": 2.0}},
    sub=SimpleNamespace(size=3),
    _norm_last=False,
)
PATHS = ["hidden_size", "eps", "act", "window", "tied", "types[1]", "rope['full']['factor']", "sub.size"]


def value_of(text):
    return evaluate(parse(text), CONFIG)


def field_value(path):
    return value_of(f"config.{path}")


LEAVES = st.sampled_from(PATHS).map(lambda path: symbolic.Expr("field", (path,))) | st.sampled_from(
    [0, 1, -3, 2.5, "silu", None, True]
).map(symbolic.const)


def expressions_of(inner):
    def operands(op):
        arity = symbolic.OPERATORS[op][0].count("{}")
        return st.tuples(*[inner] * arity).map(lambda args: symbolic.Expr(op, args))

    # ``is`` on numbers asks which object, and Python warns about it in what it compiles.
    return st.sampled_from(sorted(set(symbolic.OPERATORS) - {"is", "is_not"})).flatmap(operands)


@given(st.recursive(LEAVES, expressions_of, max_leaves=6))
def test_what_the_analysis_renders_has_the_value_that_it_computed(expr):
    try:
        expected = symbolic.evaluate(expr, field_value, {})
        assume(not isinstance(expected, complex))
    except Exception:
        return  # No value there, so there is no guard.
    found, refusal = value_or_refusal(symbolic.render(expr))
    if refusal:  # large powers, and arithmetic on text, which no source does
        assert "exponent" in refusal or "arithmetic on" in refusal
    else:
        assert (found, type(found)) == (expected, type(expected))


def value_or_refusal(text):
    try:
        return value_of(text), ""
    except (ExpressionError, TypeError) as error:
        return None, str(error)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("config.window is None", True),
        ("config.window is not None and config.window > 0", False),
        ("config.window or config.hidden_size // 4", 16),
        ("config.rope['full']['factor'] * -2", -4.0),
        ("config.types[-1]", "full"),
        ("config.act in ('silu', 'swish')", True),
        ("'full' not in config.types", False),
        ("1 < config.sub.size < 3", False),
        ("len(config.types) + round(2.6)", 5),
        ("math.sqrt(config.hidden_size)", 8.0),
        ("+config.sub.size ** 2 % 5", 4),
        ("config._norm_last", False),
    ],
)
def test_values(text, value):
    assert value_of(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "config.__class__",
        "config._secret",
        "config.sub.__dict__",
        "config.act.format(config)",
        "config.types.append(1)",
        "config.rope.clear()",
        "config.tied.real",
        "config.window.real",
        "(lambda: 1)()",
        "[x for x in config.types]",
        "config.types[0:1]",
        "(config := 1)",
        "f'{config}'",
        "print",
        "math.factorial(9)",
        "math",
        "os.environ",
        "max(*config.types)",
        "int('1', base=2)",
        "2 ** 65",
        "config.hidden_size ** config.hidden_size ** 9",
        "1 if config.tied else 2",
        "{1: 2}",
        "b'1'",
        "1j",
        "...",
        "~1",
        "1 << 100",
        "config.x = 1",
        "import os",
        "",
        "config.\0",
        "(" * 300 + "1" + ")" * 300,
        "-" * 1999 + "1",
        "1" + "+1" * 1000,
    ],
)
def test_whatever_is_not_an_expression_over_a_configuration_is_refused(text):
    with pytest.raises(ExpressionError):
        value_of(text)


@pytest.mark.parametrize("text", ["'a' * 999999999", "config.types * 999999999", "config.act + 'x'", "config.act % 1"])
def test_arithmetic_is_for_numbers(text):
    with pytest.raises(TypeError, match="arithmetic on"):
        value_of(text)


@given(st.text(max_size=40))
def test_no_text_does_anything_but_have_a_value_or_be_refused(text):
    with contextlib.suppress(ExpressionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        value_of(text)


def test_fields_are_named_once_in_order():
    tree = parse("config.b > config.a[0] and config.rope['x'].y == config.b + config.c[config.d]")
    assert fields(tree) == ["b", "a[0]", "rope['x'].y", "c", "d"]
