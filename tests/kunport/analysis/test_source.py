"""Cutting files into statements, and the line numbers of what is parsed."""

import ast
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.analysis.library.custom import python_files
from kunport.analysis.positions import line_of
from kunport.analysis.source import Root, SourceFile
from kunport.errors import KunportError


def source_file(folder, text):
    path = folder / "sample.py"
    path.write_text(text)
    return SourceFile(path, "sample.py")


TRICKY = '''"""A docstring.

class NotHere:
def nor_here(): ...
"""
import os  # class Comment:
from pathlib import (
    Path,
)

TEXT = r"""
x = 1
class Hidden: pass
"""


@decorator
@other("""
def inside(): ...
""")
class Decorated(Base):
    def method(self):
        return """
class Inner: pass
"""


async def coroutine(): ...


if os:
    A = 1
elif Path:
    A = 2
else:
    A = 3
try:
    import x
except ImportError:
    x = None
finally:
    pass
A = 'it''s' + "\\"class B: pass"
B: int = 3
C, D = 1, 2
A.update(b=1)
'''


def test_chunks_are_the_top_level_statements(tmp_path):
    file = source_file(tmp_path, TRICKY)
    expected = [
        node for node in ast.parse(TRICKY).body if not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call)
    ]
    assert [(chunk.kind, chunk.name) for chunk in file.chunks] == [
        ("import", ""),
        ("import", ""),
        ("assign", "TEXT"),
        ("class", "Decorated"),
        ("def", "coroutine"),
        ("other", ""),
        ("other", ""),
        ("assign", "A"),
        ("assign", "B"),
        ("other", ""),
        ("other", ""),
    ]
    found = [statement for chunk in file.chunks for statement in file.statements(chunk.first, chunk.last)]
    assert [ast.dump(node, include_attributes=True) for node in found] == [
        ast.dump(node, include_attributes=True) for node in expected
    ]


STATEMENTS = st.sampled_from(
    [
        "import a.b as c",
        "from .x import (\n    y,\n)",
        "class A:\n    x = 1\n",
        "def f(a,\n      b):\n    return a",
        "@d\ndef g(): pass",
        'S = """\ndef no():\n"""',
        "T = '''\nclass No: pass'''",
        "X = [\n    1,  # def no()\n]",
        "Y: int = 1",
        "# a comment\n",
        "for i in range(2):\n    Z = i",
        "if A:\n    B = 1\nelse:\n    B = 2",
        "with a as b:\n    pass",
        "print('def')",
        "a, b = 1, 2",
        "x = 'a' \"b\"",
        "y = f'{x!r:>{10}}'",
    ]
)


@given(st.lists(STATEMENTS, max_size=8), st.sampled_from(["\n", "\n\n", "\r\n"]))
def test_chunks_cover_any_file(tmp_path_factory, statements, gap):
    text = gap.join([*statements, ""])
    file = source_file(tmp_path_factory.mktemp("source"), "")
    file.path.write_bytes(text.encode())
    file = SourceFile(file.path, "sample.py")
    found = [node for chunk in file.chunks for node in file.statements(chunk.first, chunk.last)]
    assert [ast.dump(node) for node in found] == [ast.dump(node) for node in ast.parse(text).body]
    assert [node.lineno for node in found] == [node.lineno for node in ast.parse(text.replace("\r\n", "\n")).body]


def test_code_at_the_first_column_inside_brackets(tmp_path):
    file = source_file(tmp_path, "X = f(\na,\nb)\ny = 2\n")
    found = [node for chunk in file.chunks for node in file.statements(chunk.first, chunk.last)]
    assert {"X = f(a, b)", "y = 2"} <= {ast.unparse(node) for node in found}


def lines_of_calls(text):
    return sorted(line_of(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))


def test_lines_of_calls_in_a_statement_of_several_lines():
    text = "x = (\n    first(\n        second(1),\n\n        # why\n        '''a\nb''',\n        third(),\n    )\n    .fourth(2)\n"
    text += "    .fifth()\n)\n"
    assert lines_of_calls(text) == [2, 3, 8, 10, 11]


def test_lines_of_a_condition_of_several_lines_below_a_comment():
    text = "def f(x):\n    y = 1\n\n    # why\n    # indeed\n    if (\n        first()\n        and second()\n    ):\n"
    text += "        third()\n    # other\n    elif (\n        fourth()\n    ):\n        pass\n"
    assert lines_of_calls(text) == [7, 8, 10, 13]


def test_invalid_python_is_named_by_file_and_line(tmp_path):
    file = source_file(tmp_path, "x = 1\ndef f(:\n    pass\n")
    with pytest.raises(KunportError, match=r"sample\.py, line 2, is not valid Python"):
        file.check()


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "sample.py").write_bytes(b"x = '\xff\xfe'")
    with pytest.raises(KunportError, match="UTF-8"):
        SourceFile(tmp_path / "sample.py", "sample.py")


def test_roots_find_modules_and_packages(tmp_path):
    (tmp_path / "pkg" / "inner").mkdir(parents=True)
    for name in ("pkg/__init__.py", "pkg/leaf.py", "pkg/inner/__init__.py", "alone.py"):
        (tmp_path / name).write_text("")
    root = Root(tmp_path)
    assert root.find("pkg.leaf") == (tmp_path / "pkg" / "leaf.py", "pkg")
    assert root.find("pkg.inner") == (tmp_path / "pkg" / "inner" / "__init__.py", "pkg.inner")
    assert root.find("alone") == (tmp_path / "alone.py", "")
    assert root.find("pkg.absent") is None
    assert Root(tmp_path, "pkg").find("alone") is None


def test_the_folder_itself_is_a_module_only_by_its_init_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    for place in (Path(), tmp_path, Path("a")):  # `from . import x` beside a file that is named from where one stands
        assert Root(place).find("") is None
    (tmp_path / "__init__.py").touch()
    (tmp_path / "a" / "b.py").touch()
    assert Root(Path()).find("") == (Path("__init__.py"), "")
    assert Root(Path()).find("a.b") == (Path("a/b.py"), "a")
    (tmp_path / "a" / "__init__.py").touch()
    assert Root(Path()).find("a") == (Path("a/__init__.py"), "a")


def test_a_pipe_named_like_a_file_of_source_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "x.py")
    (tmp_path / "model.py").touch()
    assert python_files(tmp_path) == [tmp_path / "model.py"]
