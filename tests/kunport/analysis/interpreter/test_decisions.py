"""What the configuration decides is recorded, and sizes stay expressions."""

import pytest
from both_ways import model, read, same_both_ways
from kunport_codegen.expression import Scalar

DECISIONS = {
    "flag": ("if config.flag:\n    x = x + 1", {"flag": True}, [("config.flag", True)]),
    "not": ("if not config.flag:\n    x = x + 1", {"flag": False}, [("not config.flag", True)]),
    "comparison": ("x = x * 2 if config.n > 3 else x", {"n": 5}, [("config.n > 3", True)]),
    "arithmetic": ("if config.n // config.m == 2: x = x + 1", {"n": 4, "m": 2}, [("config.n // config.m == 2", True)]),
    "number as a flag": ("x = x + (config.n or 7)", {"n": 0}, [("bool(config.n)", False)]),
    "none": ("if config.n is not None: x = x + 1", {"n": None}, [("config.n is not None", False)]),
    "none of a list": ("if config.names is None: x = x + 1", {"names": ["a"]}, [("config.names is None", False)]),
    "in a list": ("if config.name in ['a', 'b']: x = x + 1", {"name": "b"}, [("config.name in ('a', 'b')", True)]),
    "in its own list": ("if 'a' in config.names: x = x + 1", {"names": ["a"]}, [("'a' in config.names", True)]),
    "nested": (
        "if config.rope['type'] == 'default': x = x + 1",
        {"rope": {"type": "x"}},
        [("config.rope['type'] == 'default'", False)],
    ),
    "element": ("if config.kinds[1] == 'b': x = x + 1", {"kinds": ["a", "b"]}, [("config.kinds[1] == 'b'", True)]),
    "table": ("x = {'relu': F.relu, 'silu': F.silu}[config.act](x)", {"act": "silu"}, [("config.act == 'silu'", True)]),
    "attribute by name": ("x = getattr(F, config.act)(x)", {"act": "relu"}, [("config.act == 'relu'", True)]),
    "short circuit": ("if config.a and config.b: x = x + 1", {"a": False, "b": True}, [("config.a", False)]),
    "whatever is before a plain boolean": ("if config.a and False: x = x + 1", {"a": True}, []),
    "or whatever else": ("if not (config.a or True): x = x + 1", {"a": False}, []),
    "before a plain number": ("if config.a and 2: x = x + 1", {"a": True}, [("config.a", True)]),
    "case": (
        "match config.kind:\n    case 'a' | 'b': x = x + 1\n    case _: pass",
        {"kind": "b"},
        [("config.kind == 'a'", False), ("config.kind == 'b'", True)],
    ),
    "formatted": ("x = x + {'n3': 1}[f'n{config.n}']", {"n": 3}, [("config.n == 3", True)]),
    "flag of a layer": (
        "x = nn.Linear(8, 8, bias=config.bias).bias is None and x",
        {"bias": False},
        [("config.bias", False)],
    ),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_are_guards(name, tmp_path):
    statements, config, expected = DECISIONS[name]
    source = model("config = self.config\n" + statements)
    graph = read(tmp_path, source, **config)
    assert [(str(guard.expr), guard.outcome) for guard in graph.guards] == expected
    assert all(guard.where.line >= 18 for guard in graph.guards)


@pytest.mark.parametrize("config", [{"n": 2, "k": 3}, {"n": 4, "k": 1}])
def test_what_decides_nothing_is_no_guard(config, tmp_path):
    source = model("x = x.repeat(1, 1, self.config.n)[..., : self.config.n * self.config.k] * self.config.k ** -0.5")
    graph = same_both_ways(tmp_path, source, **config)
    assert graph.guards == []


def test_a_list_of_layers_as_deep_as_the_configuration_says_is_no_guard(tmp_path):
    init = "self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(config.depth)])"
    graph = same_both_ways(tmp_path, model("for f in self.layers[: self.config.depth]:\n    x = f(x)", init), depth=3)
    assert graph.guards == []


def test_constants_and_sizes_keep_their_expression(tmp_path):
    init = "self.proj = nn.Linear(8, config.heads * config.width)\nself.scale = config.width ** -0.5"
    graph = same_both_ways(
        tmp_path,
        model("x = self.proj(x).view(*x.shape[:2], -1, self.config.width) * self.scale", init),
        heads=3,
        width=4,
    )
    assert [str(size.expr) for size in graph.parameters["proj.weight"].shape if isinstance(size, Scalar)] == [
        "config.heads * config.width"
    ]
    assert str(graph.modules[""].attributes["scale"].expr) == "config.width ** -0.5"
    product = next(node for node in graph.nodes if node.op == "mul")
    assert str(product.args[1].expr) == "config.width ** -0.5"
    assert [str(size) if not isinstance(size, Scalar) else str(size.expr) for size in product.shape] == [
        "batch",
        "sequence",
        "config.heads",
        "config.width",
    ]


def test_a_branch_on_a_size_is_noted(tmp_path):
    graph = read(tmp_path, model("if x.shape[1] > 4: x = x + 1"))
    assert graph.guards == []
    assert any("sequence > 4" in note for note in graph.notes)


def test_a_configuration_that_the_constructor_rewrites(tmp_path):
    source = model("x = x + self.config.n", init="config.n = config.n * 2\nconfig.extra = 1")
    same_both_ways(tmp_path, source, n=3)


def test_a_choice_by_a_size_is_noted_where_there_is_another_case(tmp_path):
    source = model("if x.shape[1] != x.shape[1]: x = x + 1\nif x.shape[1] > 64: x = x + 2")
    (note,) = read(tmp_path, source).notes
    assert note.endswith("a choice by sequence; what was read is the case in which sequence > 64 is false")
