"""Plain Python: the interpreter gives what Python gives."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.analysis.interpreter import Interpreter, RaisedError
from kunport.analysis.interpreter.operations import plain
from kunport.analysis.source import Root

PROGRAMS = {
    "unpacking": "a, (b, *c), d = 1, (2, 3, 4), 5\nreturn a, b, c, d",
    "starred": "x = [*range(3), *(4, 5)]\ny = {**{'a': 1}, 'b': 2}\nreturn x, y, max(*x)",
    "conditional": "return [('even' if i % 2 == 0 else 'odd') for i in range(4) if i != 1]",
    "nested comprehension": "return [(i, j) for i in range(3) for j in range(i) if j] + [{k: v for k, v in zip('ab', (1, 2))}]",
    "boolean values": "return [0 or 'x', '' or None, 1 and 2, 0 and 2, not 0, not [1], (1 < 2 < 3), (1 < 3 < 2)]",
    "chained booleans": "return [1 and 2 and 3, 1 and 0 and 3, 0 or 2 or 3, 0 or '' or [], 1 and 0 or 5, (1 or 2) and (0 or 7)]",
    "loops": "s = 0\nfor i in range(10):\n    if i == 2: continue\n    if i == 7: break\n    s += i\nelse:\n    s = -1\nreturn s, i",
    "for else": "for i in []: pass\nelse: i = 3\nreturn i",
    "while": "n = 10\nwhile n > 3:\n    n -= 2\n    if n == 6: break\nreturn n",
    "while else": "n = 3\nwhile n: n -= 1\nelse: n = 9\nreturn n",
    "text": "return f'a\\tb{1}' 'c\\n', b'\\x00', 0x10, 1_000, 1e-3, ..., True",
    "several targets": "a = b, c = 1, 2\nx = {'k': 1, 'l': 2}\ndel x['k'], a\nreturn b, c, x",
    "items": "class A:\n    def __getitem__(self, key): return key\na, t = A(), (1, 2)\nreturn a[0], a[0,], a[1:2, ...], a[(3, 4)], a[*t, 5]",
    "exceptions": "try:\n    {}['a']\nexcept (ValueError, KeyError):\n    x = 1\nelse:\n    x = 2\nfinally:\n    y = 3\nreturn x, y",
    "re-raised": "def f():\n    raise ValueError('a')\ntry:\n    try:\n        f()\n    except KeyError:\n        return 1\nexcept ValueError:\n    return 2",
    "no exception": "try:\n    x = 1\nexcept Exception:\n    x = 2\nelse:\n    x += 10\nreturn x",
    "closures": "def outer(a):\n    def inner(b=2, *, c=3):\n        return a + b + c\n    return inner\nreturn outer(1)(), outer(1)(5, c=0)",
    "nonlocal": "n = 0\ndef add():\n    nonlocal n\n    n += 1\n    return n\nadd()\nreturn add(), n",
    "arguments": "def f(a, b=2, *rest, c=3, **more):\n    return a, b, rest, c, more\nreturn f(1), f(1, 2, 3, 4, c=5, d=6), f(*[1, 2], **{'c': 9})",
    "lambda": "return sorted(['bb', 'a', 'ccc'], key=lambda s: -len(s)), list(map(lambda x, y=1: x + y, [1, 2]))",
    "strings": "return 'a,b'.split(','), f'{1 + 1}-{\"x\"}', '-'.join(['a', 'b']), 'abc'.startswith('ab'), 'a' 'b', 'abc'[1:]",
    "numbers": "return 7 // 2, -7 % 3, 2 ** 10, 7 / 2, abs(-3), round(2.567, 1), int('12'), float('1.5'), divmod(7, 2), 1 << 3 | 1",
    "containers": "d = {'a': [1]}\nd['a'].append(2)\nd.setdefault('b', []).extend((3, 4))\nd.pop('c', None)\nreturn d, d.get('z', 0), list(d.items())",
    "sets": "s = {1, 2, 2}\ns.add(3)\nreturn sorted(s), 2 in s, len(s), sorted({x % 2 for x in s})",
    "slices": "x = list(range(6))\nx[1:3] = [9]\ndel x[0]\nreturn x[::-1], x[-2:], x[slice(1, None)]",
    "walrus": "return [y for x in range(4) if (y := x * 2) > 2], y",
    "built-ins": "return sum([1, 2], 3), min(3, 1), max([1, 5]), any([0, 1]), all([]), list(enumerate('ab', 1)), list(reversed([1, 2]))",
    "match of values": "def f(x):\n    match x:\n        case 1 | 2: return 'few'\n        case 'a': return 'text'\n        case None: return 'none'\n        case int() as n if n > 5: return n\n        case _: return 'other'\nreturn [f(x) for x in (1, 2, 'a', None, 9, 4, True)]",
    "match of parts": "def f(x):\n    match x:\n        case []: return 'empty'\n        case [a, [b, 3]]: return a, b\n        case (a, b): return b, a\n        case {'k': k, 'l': 2}: return k\n        case {'k': k}: return k, 0\n    return 'none'\nreturn [f(x) for x in ([], (1, [2, 3]), [1, 2], {'k': 1, 'l': 2}, {'k': 1, 'm': 2}, 5)]",
    "match binds": "match [1, 2]:\n    case [a, 3]: a = 9\n    case [a, b]: pass\nreturn a, b",
    "namespaces": "import types, argparse\nn = types.SimpleNamespace(a=1, b=2)\nn.c = n.a + n.b\nm = argparse.Namespace(**vars(n))\nreturn m.c, hasattr(m, 'd'), getattr(n, 'a')",
    "iterators": "i = iter([1, 2, 3])\nreturn next(i), next(i), next(iter([]), 'none'), list(zip([1, 2], 'ab'))",
    "identity": "x = [1]\nreturn x is x, x is not None, None is None, 3 in x, 1 not in x, 'b' in 'abc'",
    "type checks": "return isinstance(1, int), isinstance('a', (int, str)), isinstance([], (list, tuple)), callable(len), hasattr([], 'append')",
    "augmented": "x = [1]\nx += (2,)\ny = 'a'\ny += 'b'\nz = {'n': 1}\nz['n'] *= 5\nreturn x, y, z",
    "mathematics": "import math\nreturn math.sqrt(16), math.floor(2.7), math.ceil(2.1), math.log(math.e), math.pi, math.isqrt(10)",
    "tools": "import functools, itertools\nreturn functools.reduce(lambda a, b: a * b, [1, 2, 3]), functools.partial(max, 5)(3), list(itertools.chain([1], [2]))",
    "copies": "import copy\na = {'x': [1]}\nb, c = copy.copy(a), copy.deepcopy(a)\na['x'].append(2)\nreturn b, c",
    "with": "import contextlib\nwith contextlib.nullcontext():\n    x = 1\nreturn x",
}

CLASSES = {
    "inheritance": """
        class A:
            kind = "a"
            def __init__(self, x): self.x = x
            def get(self): return self.kind, self.x
        class B(A):
            kind = "b"
            def __init__(self, x, y):
                super().__init__(x)
                self.y = y
            def get(self): return super().get() + (self.y,)
        return B(1, 2).get(), A(3).get(), isinstance(B(1, 2), A), issubclass(B, A)
    """,
    "diamond": """
        class A:
            def f(self): return ["A"]
        class B(A):
            def f(self): return ["B"] + super().f()
        class C(A):
            def f(self): return ["C"] + super().f()
        class D(B, C):
            def f(self): return ["D"] + super().f()
        return D().f()
    """,
    "kinds of methods": """
        class A:
            count = 3
            @property
            def twice(self): return self.count * 2
            @twice.setter
            def twice(self, value): self.count = value // 2
            @staticmethod
            def plain(x): return x + 1
            @classmethod
            def make(cls, n):
                made = cls()
                made.count = n
                return made
        a = A.make(5)
        before = a.twice
        a.twice = 8
        return before, a.count, A.plain(1), a.plain(2), A.count
    """,
    "special methods": """
        class A:
            def __init__(self, items): self.items = items
            def __getitem__(self, i): return self.items[i]
            def __len__(self): return len(self.items)
            def __iter__(self): return iter(self.items)
            def __contains__(self, x): return x in self.items
            def __call__(self, x): return x * 2
            def __add__(self, other): return A(self.items + other.items)
            def __eq__(self, other): return self.items == other.items
            def __bool__(self): return False
            def __getattr__(self, name): return name.upper()
        a = A([1, 2])
        return a[1], len(a), list(a), 2 in a, a(4), (a + a).items, a == A([1, 2]), bool(a), a.missing
    """,
    "class body": """
        class A:
            x = 1
            y = x + 1
            table = {k: v for k, v in (("a", 1),)}
            class Inner:
                z = 5
            def f(self): return self.y + self.Inner.z
        return A().f(), A.table
    """,
    "dataclass": """
        from dataclasses import dataclass, field
        @dataclass
        class A:
            x: int
            y: int = 2
            z: list = field(default_factory=list)
            def __post_init__(self): self.y += 1
        @dataclass
        class B(A):
            w: int = 9
        a = A(1)
        a.z.append(1)
        return a.x, a.y, a.z, A(5, y=3).y, A(1).z, B(1, 2, w=4).w
    """,
    "attributes by name": """
        class A: pass
        a = A()
        setattr(a, "x", 1)
        value = getattr(a, "x"), getattr(a, "y", 2), hasattr(a, "x"), hasattr(a, "y")
        del a.x
        return value, hasattr(a, "x")
    """,
    "decorator of the source": """
        import functools
        def twice(f):
            @functools.wraps(f)
            def wrapper(*args, **kwargs): return f(*args, **kwargs) * 2
            return wrapper
        def times(n):
            return lambda f: (lambda *args: f(*args) * n)
        class A:
            @twice
            def f(self, x): return x + 1
            @times(3)
            def g(self, x): return x
        return A().f(1), A().g(2), A.f.__name__
    """,
}


def run(folder, body, name="program"):
    text = "def program():\n" + textwrap.indent(textwrap.dedent(body), "    ")
    (folder / f"{name}.py").write_text(text)
    interpreter = Interpreter([Root(folder)], contain=False)
    interpreter.trace.begin("test")
    interpreter.debug = True
    return plain(interpreter.call(interpreter.load(name).get("program"), [], {}))


def python(body):
    scope = {}
    exec("def program():\n" + textwrap.indent(textwrap.dedent(body), "    "), scope)
    return scope["program"]()


@pytest.mark.parametrize("name", [*PROGRAMS, *CLASSES])
def test_programs(name, tmp_path):
    body = (PROGRAMS | CLASSES)[name]
    assert run(tmp_path, body) == python(body)


NUMBERS = st.integers(-9, 9).map(str) | st.sampled_from(["0.5", "2.25", "True", "None", "'ab'", "(1, 2)"])
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: (
        st.tuples(
            inner,
            st.sampled_from(["+", "-", "*", "//", "%", "/", "<", "<=", "==", "!=", "and", "or", "in"]),
            inner,
        ).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})")
        | inner.map(lambda each: f"(not {each})")
        | inner.map(lambda each: f"({each} is None)")
        | inner.map(lambda each: f"(-{each})")
        | st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})")
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")
    ),
    max_leaves=8,
)


def outcome(call):
    """A value with its type, or the name of what was raised."""
    try:
        value = call()
    except RaisedError as raised:
        return raised.name
    except Exception as raised:
        return type(raised).__name__
    return type(value), value


@given(EXPRESSIONS)
def test_expressions(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("expression")
    assert outcome(lambda: run(folder, f"return {text}")) == outcome(lambda: eval(text))
