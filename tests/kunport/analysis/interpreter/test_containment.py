"""What is not understood becomes unknown where it stands, with the reason, and the rest is still read."""

import pytest
from both_ways import model, read
from kunport.analysis.assemble import assemble
from kunport.analysis.source import Root
from kunport.errors import KunportError

HELPER = """
def helper(x):
    y = x * 2
    {}
    return y
"""

# What a function does -> words of the reason.
NOT_UNDERSTOOD = {
    "y = '%*d' % (2 * 10**9, 3)": "a format whose width is an argument",
    "y = exotic.kernel(y)": "exotic",
    "y = torch.unheard_of(y)": "torch.unheard_of",
    "y = y.unheard_of()": "unheard_of",
    "y = undefined_name": "undefined_name is not defined",
    "raise ValueError('no')": "ValueError",
    "y = helper(x)": "nested deeper",
    "y = y.absent.attribute": "absent",
    "return y if y.sum() > 0 else x": "values of a tensor",
    "y = y.tolist()": "plain numbers",
    "y = y @ y": "matmul",
    "async def z(): await y\n    y = z()": "coroutine",
    "y = [each async for each in y]": "asynchronous",
    "y = y.view(torch.int8)": "dtype",
    "y = torch.arange(0, 8, 0)": "divides by zero",
    "y = {each: 1 for each in [{}]}": "a key of what can change",
    "y = {(1, [2]): 1}": "a key of what can change",
    "y = {(1, [2])}": "a set of what can change",
    "class Odd:\n        def __init__(): raise ValueError('no')\n    Odd.__init__()": "ValueError",
    "while True: pass": "",
}


@pytest.mark.parametrize("statement", NOT_UNDERSTOOD)
def test_a_failure_stays_in_its_call(statement, tmp_path):
    source = model("z = helper(x)\nx = x + 1", extra="import exotic\n" + HELPER.format(statement))
    graph = read(tmp_path, source)
    unknown = graph.unknowns()
    assert unknown, "silently passed over"
    assert NOT_UNDERSTOOD[statement] in unknown[0].args[0]
    line = unknown[0].where.line
    assert line in range(12, 20), source.splitlines()[line - 1]
    assert graph.nodes[-1].op == "add", "the rest was not read"
    assert graph.frames[unknown[0].frame].name in ("helper", "z", "<lambda>", "Model")


def test_what_depends_on_the_unknown_says_so(tmp_path):
    source = model("y = exotic.kernel(x)\nx = F.relu(y * 2).transpose(1, 2) + y.shape[0]", extra="import exotic")
    graph = read(tmp_path, source)
    assert [node.op for node in graph.nodes[-4:]] == ["mul", "relu", "transpose", "add"] or graph.unknowns()
    assert graph.output is not None
    assert graph.nodes[-1].shape is None


def test_an_unknown_decorator_makes_a_function_unknown(tmp_path):
    extra = "import exotic\n@exotic.fast\ndef f(x): return x\n@exotic.wrap(1)\nclass C(nn.Module):\n    pass"
    graph = read(tmp_path, model("y = f(x)\nz = C()", extra=extra))
    assert [node.args[0] for node in graph.unknowns()][:1][0].startswith("f is wrapped by a decorator")
    assert any(node.args[0].startswith("C is wrapped by a decorator") for node in graph.unknowns())


def test_an_unknown_base_class(tmp_path):
    extra = "import exotic\nclass C(exotic.Base):\n    def g(self): return 1"
    graph = read(tmp_path, model("c = C()\nx = x + c.g()\ny = c.h", extra=extra))
    assert any("exotic.Base" in node.args[0] for node in graph.unknowns())


def test_a_constructor_that_fails_half_way(tmp_path):
    extra = """
    import exotic
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8)
            self.b = exotic.make() + 1
            self.c = [][3]
            self.d = nn.Linear(8, 8)

        def forward(self, x):
            return self.a(x) + self.d(x)
    """
    graph = read(tmp_path, model("y = self.part(x)\nx = x * 2", init="self.part = Part()", extra=extra))
    assert "part.a.weight" in graph.parameters
    assert any("only built in part" in node.args[0] for node in graph.unknowns())
    assert graph.nodes[-1].op == "mul"


def test_a_branch_that_only_the_data_decide(tmp_path):
    graph = read(tmp_path, model("y = 1\nif x.sum() > 0:\n    y = 2\nelse:\n    z = 1\nx = x + 1"))
    assert {node.args[0].split()[0] for node in graph.unknowns()} == {"y", "z"}
    assert graph.nodes[-1].op == "add"


def test_checks_that_only_the_data_decide_are_passed_over(tmp_path):
    statements = "if x.isnan().any():\n    raise ValueError('nan')\nassert x.sum() > 0\nx = x + 1"
    assert not read(tmp_path, model(statements)).unknowns()


def test_caught_exceptions_are_python_s(tmp_path):
    statements = (
        "try:\n    y = self.absent\nexcept AttributeError:\n    y = 1\ny += getattr(self, 'absent', 2)\nx = x + y"
    )
    graph = read(tmp_path, model(statements))
    assert not graph.unknowns()
    assert graph.nodes[-1].args[1] == 3


def test_an_error_of_the_analysis_itself_is_contained(tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise FloatingPointError("oops")

    monkeypatch.setattr("kunport.analysis.interpreter.tensors.infer", broken)
    graph = read(tmp_path, model("x = x + 1"))
    assert "FloatingPointError: oops" in graph.unknowns()[0].args[0]


def sample(folder, text):
    (folder / "modeling_sample.py").write_text(text)
    return assemble("modeling_sample", "Model", [Root(folder)], {}, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class Model:\n  def f(:\n", "line 2"),
        ("x = 1", "no class Model"),
        ("def Model(config): return 1", "not a class"),
        ("from exotic import Model", "not a class"),
        ("Model = undefined", "undefined"),
        ("class Model(undefined): pass", "undefined"),
    ],
)
def test_a_source_without_the_model_is_an_error_of_the_user(text, words, tmp_path):
    with pytest.raises(KunportError, match=words):
        sample(tmp_path, text)


def test_a_missing_file_is_an_error_of_the_user(tmp_path):
    with pytest.raises(KunportError, match="modeling_absent"):
        assemble("modeling_absent", "Model", [Root(tmp_path)], {}, None)


def test_a_model_that_cannot_run_is_read_all_the_same(tmp_path):
    graph = sample(
        tmp_path, "from torch import nn\nclass Model(nn.Module):\n    def __init__(self, config): pass\n"
    ).graph
    assert "no forward" in graph.unknowns()[0].args[0]
