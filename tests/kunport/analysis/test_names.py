"""Names across files, and classes across names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.analysis.interpreter import Interpreter, NotUnderstoodError
from kunport.analysis.source import Root
from kunport.analysis.values import NativeClass, Opaque, linearize


@pytest.fixture
def files(tmp_path):
    """Writes files and gives the interpreter that reads them."""

    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        interpreter = Interpreter([Root(tmp_path)], contain=False)
        interpreter.trace.begin("test")
        return interpreter

    return write


@pytest.mark.parametrize("statement", ["import torch.n{0} as m", "from torch import n{0} as m", "from .n{0} import m"])
def test_a_name_that_is_too_long_for_a_file(files, statement):
    interpreter = files(a=statement.format("9" * 5000))
    assert isinstance(interpreter.load("a").get("m"), Opaque)


def test_imports_are_followed(files):
    interpreter = files(
        a="from b import one as first, two\nimport b\nimport pkg.leaf\nx = first + two + b.one + pkg.leaf.three",
        b="one = 1\nfrom c import *",
        c="two = 2",
        pkg__leaf="three = 3",
    )
    assert interpreter.load("a").get("x") == 1 + 2 + 1 + 3


def test_relative_imports(files):
    interpreter = files(
        pkg__one__a="from ..two.b import x\nfrom . import c\nfrom .. import two\ny = x + c.z",
        pkg__one__c="z = 10",
        pkg__two__b="x = 5",
    )
    assert interpreter.load("pkg.one.a").get("y") == 15


def test_only_what_is_asked_for_is_evaluated(files):
    interpreter = files(a="x = 1\nraise RuntimeError\ny = undefined + 1\n")
    assert interpreter.load("a").get("x") == 1


def test_later_statements_change_a_name(files):
    text = "table = {'a': 1}\ntable.update(b=2)\ntable['c'] = 3\nx = 1\nx += 4\n"
    namespace = files(a=text).load("a")
    assert namespace.get("table") == {"a": 1, "b": 2, "c": 3}
    assert namespace.get("x") == 5


def test_branches_at_the_top_level(files):
    text = "from transformers.utils import is_torch_available, is_flash_attn_2_available\nfrom typing import TYPE_CHECKING\n"
    text += "if is_torch_available():\n    x = 1\nelse:\n    x = 2\n"
    text += "if is_flash_attn_2_available():\n    y = 1\nelse:\n    y = 2\n"
    text += "if TYPE_CHECKING:\n    from nowhere import z\nelse:\n    z = 3\n"
    namespace = files(a=text).load("a")
    assert [namespace.get(name) for name in "xyz"] == [1, 2, 3]


def test_optional_packages_are_absent(files):
    text = "try:\n    import flash_attn\n    from flash_attn import fast\nexcept ImportError:\n    fast = None\n    flash_attn = None\n"
    text += "try:\n    from b import here\nexcept ImportError:\n    here = None\n"
    namespace = files(a=text, b="here = 7").load("a")
    assert namespace.get("fast") is None
    assert namespace.get("flash_attn") is None
    assert namespace.get("here") == 7


def test_what_is_not_read_is_opaque_and_says_why(files):
    namespace = files(a="from exotic.kernels import fast\nimport torch\ny = torch.unheard_of").load("a")
    assert namespace.get("fast") == Opaque("exotic.kernels.fast", "part of a package whose source is not read")
    assert isinstance(namespace.get("y"), Opaque)


def test_cyclic_modules(files):
    interpreter = files(
        a="from b import g\ndef f(n): return n\nx = g(3)", b="from a import f\ndef g(n): return f(n) + 1"
    )
    assert interpreter.load("a").get("x") == 4


def test_a_name_that_depends_on_itself(files):
    with pytest.raises(NotUnderstoodError, match="depends on itself"):
        files(a="x = y\ny = x").load("a").get("x")


def test_missing_names(files):
    interpreter = files(a="x = 1")
    with pytest.raises(KeyError):
        interpreter.load("a").get("y")
    with pytest.raises(NotUnderstoodError):
        interpreter.load("b")


@given(st.data())
def test_resolution_order_is_python_s(data):
    real, mine = [object], [None]
    for number in range(data.draw(st.integers(1, 7))):
        count = data.draw(st.integers(0, min(3, len(real) - 1)))
        chosen = data.draw(st.permutations(range(1, len(real))))[:count] if len(real) > 1 else []
        try:
            made = type(f"C{number}", tuple(real[each] for each in chosen) or (object,), {})
        except TypeError:
            bases = tuple(mine[each] for each in chosen)
            with pytest.raises(TypeError):
                linearize(NativeClass(f"C{number}", bases), bases)
            continue
        real.append(made)
        mine.append(NativeClass(f"C{number}", tuple(mine[each] for each in chosen)))
    for expected, got in zip(real[1:], mine[1:], strict=True):
        assert [cls.__name__ for cls in expected.__mro__[:-1]] == [cls.name for cls in got.mro]
