"""An operator that is put anywhere into a model: a fact changes, or it is named, or the model computes the same."""

import ast
import types
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport.analysis import analyze
from kunport.validation.executor import execute
from kunport.variants import read_facts
from kunport_codegen.expression import unwrap
from kunport_codegen.graph import Graph
from test_changed_models import SOURCE

OPERATORS = {
    "scale": "z * 0.7",
    "constant": "z + 0.3",
    "bounds": "z.clamp(-0.2, 0.2)",
    "roll": "z.roll(1, -1)",
    "roll of tokens": "z.roll(1, -2) if z.ndim > 1 else z",
    "flip": "z.flip(-1)",
    "half": "z.to(torch.float16).to(z.dtype)",
    "activation": "torch.tanh(z)",
    "mixing": "z.transpose(-1, -2).reshape(z.shape) if z.ndim > 1 else z",
}
SMALL = SOURCE.replace("depth: int = 3", "depth: int = 2")
# As many heads as each has elements: shapes do not show that the two dimensions are exchanged.
SQUARE = SMALL.replace("width: int = 32", "width: int = 36").replace("heads: int = 4", "heads: int = 6")
QUERY = "q = self.q(x).view(b, t, -1, self.size)"
TOKENS = torch.tensor([[3, 41, 5, 17, 58, 9, 26]])


class _Wrapping(ast.NodeTransformer):
    """Wraps the expressions of what runs, each in a call of ``inserted`` with its number; or only one of them."""

    def __init__(self, only: int | None = None) -> None:
        self.only, self.count = only, 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name == "__init__":
            return node
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args = [self.visit(each) for each in node.args]
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        return self._wrapped(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._wrapped(node) if isinstance(node.ctx, ast.Load) and node.id not in ("torch", "F") else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        node.left, node.right = self.visit(node.left), self.visit(node.right)
        return self._wrapped(node)

    def _wrapped(self, node: ast.expr) -> ast.expr:
        self.count += 1
        if self.only not in (None, self.count):
            return node
        return ast.Call(ast.Name("inserted", ast.Load()), [node, ast.Constant(self.count)], [])


def _source(body: str, only: int | None = None) -> str:
    """The model with ``inserted`` around one of its expressions, or around all; ``body`` is what that gives for z."""
    wrapping, tree = _Wrapping(only), ast.parse(SMALL)
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        for each in members:
            if isinstance(each, ast.FunctionDef):
                wrapping.visit(each)
    return f"import torch\ndef inserted(z, number):\n    {body}\n" + ast.unparse(ast.fix_missing_locations(tree))


@cache
def _edges() -> list[int]:
    """The numbers of the expressions that are tensors of floating numbers whenever the model runs."""
    module = types.ModuleType("model")
    module.seen = {}
    body = "seen.setdefault(number, []).append(z); return z"
    exec(compile(_source(body), "model.py", "exec"), module.__dict__)
    module.Model(module.Config())(TOKENS)
    floating = {number: all(map(_is_floating, values)) for number, values in module.seen.items()}
    return sorted(number for number, each in floating.items() if each)


def _is_floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


@cache
def _read(operator: str, edge: int) -> tuple[Graph, list[tuple[str, str, object]]]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.py")
        path.write_text(_source(f"return {OPERATORS[operator]}", edge) if operator else SMALL)
        graph = analyze(path).graph
    return graph, [(key, fact.status, fact.value) for key, fact in read_facts(graph).walk()]


def _logits(graph: Graph) -> torch.Tensor:
    torch.manual_seed(0)
    tensors = {
        path: torch.randn([unwrap(size) for size in parameter.shape]) for path, parameter in graph.parameters.items()
    }
    return execute(graph, tensors, TOKENS)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(OPERATORS)), st.data())
def test_what_is_put_in_is_stated_or_named_or_does_nothing(operator, data):
    edge = data.draw(st.sampled_from(_edges()))
    (plain, expected), (changed, found) = _read("", 0), _read(operator, edge)
    if found == expected:
        assert torch.allclose(_logits(changed), _logits(plain), rtol=1e-5, atol=1e-6)


def test_an_exchange_of_dimensions_of_one_size_is_named(tmp_path):
    assert QUERY in SQUARE
    for name, source in (("plain", SQUARE), ("turned", SQUARE.replace(QUERY, f"{QUERY}.transpose(2, 3)"))):
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        (kind,) = read_facts(analyze(path).graph).kinds
        assert ("transpose" in kind.facts["unexplained"].reason) == (name == "turned")
