"""Mutations of a syntax tree: what comes out is valid Python more often than not."""

from __future__ import annotations

import ast
import copy
import random
from typing import Any

ABSURD = (
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**70),
    10**400,
    1e308,
    0.0,
    True,
    None,
    "",
    "x" * 3000,
    b"\x00",
    ...,
    1j,
    "\x1b[31m",
)
# Statements and expressions that hurt a reader who runs them without limits.
BOMBS = (
    "while True:\n    pass",
    "for _ in range(10**12):\n    x = _",
    "x = 'a' * 10**12",
    "x = [0] * 10**12",
    "x = 10**10**10",
    "x = 1 << 10**12",
    "x = f'{1:>{10**10}}'",
    "x = '%1000000000d' % 3",
    "x = 'a'.ljust(10**11)",
    "x = [[y for y in range(10**4)] for _ in range(10**5)]",
    "x = list(range(10**10))",
    "x = sum(range(10**11))",
    "x = 'ab'.replace('', 'c' * 10**6) * 10**4",
    "def f(n):\n    return f(n + 1)\nf(0)",
    "f = lambda n: f(n) + f(n)\nf(0)",
    "x = []\nx.append(x)\ny = str(x)",
    "x = {}\nx['x'] = x\ny = x == x",
    "class A(B):\n    pass\nclass B(A):\n    pass",
    "from .modeling_case import *",
    "import modeling_case",
    "x = 9 ** 9 ** 9 % 7",
    "x = int('9' * 10**5)",
    "import re\nx = re.match('(a+)+$', 'a' * 40 + 'b')",
    "x = eval('1')",
    "x = (yield)",
    "x = [*range(3)][10**30]",
    "x = torch.zeros(10**15, 10**15)",
    "x = torch.arange(10**14)",
    "x = nn.ModuleList([nn.Linear(2, 2) for _ in range(10**9)])",
    "x = tuple(range(10**9))",
    "x = dict.fromkeys(range(10**9))",
    "x = max(range(10**10))",
    "x = list(zip(range(10**9), range(10**9)))",
    "x = sorted(range(10**9))",
    "x = ','.join(str(y) for y in range(10**9))",
    "x = math.factorial(10**8)",
    "x = round(1.5, 10**9)",
    "x = pow(3, 10**10)",
    "x = divmod(10**400, 0)",
    "x = (1.5).__pow__(10**9)",
    "x = abs(-10**400) / 3",
    "x = float(10**400)",
    "x = str(10**5000)",
    "x = range(10**30)[::-1]",
    "x = set(range(10**9))",
    "x = bytes(10**11)",
    "x = bytearray(10**11)",
    "x = [1, 2] * -(10**30)",
    "import itertools\nx = list(itertools.product(range(10**5), repeat=5))",
    "x = list(enumerate(iter(int, 1)))",
)


def mutate(source: str, draw: random.Random) -> str:
    """The source with one to four mutations of its tree, or as it is where it has none."""
    try:
        tree = ast.parse(source)
        for _ in range(draw.randint(1, 4)):
            draw.choice(_MUTATIONS)(tree, draw)
        return ast.unparse(ast.fix_missing_locations(tree))
    except (SyntaxError, ValueError, RecursionError, TypeError, AttributeError):  # no tree that could be written
        return source


def _replace_expression(tree: ast.Module, draw: random.Random) -> None:
    holders = [(node, name, value) for node in ast.walk(tree) for name, value in ast.iter_fields(node)]
    places = [each for each in holders if isinstance(each[2], ast.expr) and not isinstance(each[2], ast.Starred)]
    if places:
        node, name, _ = draw.choice(places)
        setattr(node, name, copy.deepcopy(draw.choice(places)[2]))


def _absurd_constant(tree: ast.Module, draw: random.Random) -> None:
    if constants := [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]:
        draw.choice(constants).value = draw.choice(ABSURD)


def _rename(tree: ast.Module, draw: random.Random) -> None:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
    if names:
        texts = [node.id if isinstance(node, ast.Name) else node.attr for node in names]
        node, text = draw.choice(names), draw.choice(texts)
        setattr(node, "id" if isinstance(node, ast.Name) else "attr", text)


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    found = [getattr(node, name, None) for node in ast.walk(tree) for name in ("body", "orelse")]
    return [body for body in found if isinstance(body, list) and body]


def _move_statement(tree: ast.Module, draw: random.Random) -> None:
    bodies = _bodies(tree)
    taken, given = draw.choice(bodies), draw.choice(bodies)
    statement = copy.deepcopy(draw.choice(taken))
    given.insert(draw.randrange(len(given) + 1), statement)


def _drop_statement(tree: ast.Module, draw: random.Random) -> None:
    body = draw.choice(_bodies(tree))
    if len(body) > 1:
        body.pop(draw.randrange(len(body)))


def _insert_bomb(tree: ast.Module, draw: random.Random) -> None:
    body = draw.choice(_bodies(tree))
    place = draw.randrange(len(body) + 1)
    body[place:place] = ast.parse(draw.choice(BOMBS)).body


def _wrap(tree: ast.Module, draw: random.Random) -> None:
    body = draw.choice(_bodies(tree))
    place = draw.randrange(len(body))
    shape = draw.choice(
        (
            "try:\n    pass\nexcept Exception:\n    pass",
            "while x:\n    pass",
            "for x in y:\n    pass",
            "with x as y:\n    pass",
            "if x:\n    pass",
            "def forward(self, *args, **kwargs):\n    pass",
            "class Inner(nn.Module):\n    pass",
            "match x:\n    case [1, *_]:\n        pass",
            "async def f():\n    pass",
        )
    )
    wrapped: Any = ast.parse(shape).body[0]
    holder = wrapped.cases[0] if isinstance(wrapped, ast.Match) else wrapped
    holder.body = [body[place]]
    body[place] = wrapped


def _nest(tree: ast.Module, draw: random.Random) -> None:
    """An expression inside hundreds of others."""
    places = [node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.Return) and node.value is not None]
    if not places:
        return
    node = draw.choice(places)
    value = node.value
    assert value is not None
    kind = draw.randrange(4)
    for _ in range(draw.choice((20, 90, 300))):
        if kind == 0:
            value = ast.UnaryOp(ast.USub(), value)
        elif kind == 1:
            value = ast.List([value], ast.Load())
        elif kind == 2:
            value = ast.BinOp(value, ast.Add(), ast.Constant(1))
        else:
            value = ast.Call(ast.Attribute(value, "float", ast.Load()), [], [])
    node.value = value


def _change_bases(tree: ast.Module, draw: random.Random) -> None:
    """A class gets bases of the file, itself perhaps."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    if classes:
        chosen = [draw.choice(classes) for _ in range(draw.randint(0, 3))]
        draw.choice(classes).bases = [ast.Name(each.name, ast.Load()) for each in chosen]


_MUTATIONS = (
    _replace_expression,
    _replace_expression,
    _absurd_constant,
    _rename,
    _move_statement,
    _drop_statement,
    _insert_bomb,
    _wrap,
    _nest,
    _change_bases,
)
