"""Kinds of hostile input, one by one: each ends in a report or in one sentence, at once, and nothing acts."""

import json
import random
import time
import tracemalloc

import pytest
from kunport.fuzz import configs, grammar, noise, worker
from kunport.fuzz.cases import write_case

import kunport

pytestmark = pytest.mark.untraced

MODEL = """import math
import torch
from torch import nn


class Part(nn.Module):
    def forward(self, hidden):
        {body}
        return hidden


class CaseForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.part = Part()
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        return self.head(self.part(self.embed(input_ids)))
"""
CONFIG = {
    "architectures": ["CaseForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "modeling_case.CaseForCausalLM"},
    "model_type": "case",
    "vocab_size": 16,
    "hidden_size": 8,
}


def judge(model, form="text"):
    return worker.judge(model, form).problem


@pytest.fixture
def write(tmp_path):
    """Writes a folder with one model, text or bytes, and its configuration."""

    def write(source, config=CONFIG):
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        data = source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")
        (folder / "modeling_case.py").write_bytes(data)
        (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
        return folder

    return write


def body(lines):
    return MODEL.replace("{body}", lines.replace("\n", "\n        "))


@pytest.mark.parametrize("bomb", grammar.BOMBS)
def test_source_that_never_ends_or_fills_the_memory(write, bomb):
    began = time.process_time()
    assert judge(write(body(bomb))) == ""
    assert time.process_time() - began < 30  # 10 s at most, and as much again where coverage looks on


@pytest.mark.parametrize("bomb", ["while True:\n    pass", "x = [0] * 10**12", "x = sum(range(10**11))"])
def test_what_costs_too_much_is_not_understood_and_the_rest_is(write, bomb):
    analysis = kunport.analyze(write(body(bomb)))
    assert len(analysis.unknowns) == 1
    assert analysis.unknowns[0].where.line >= 8
    assert [node.op for node in analysis.graph.nodes if node.op in ("embedding", "linear")] == ["embedding", "linear"]


@pytest.mark.parametrize(
    "value",
    [
        "-" * 5000 + "1",
        "(" * 3000 + ")" * 3000,
        "[" * 95 + "]" * 95,
        "x" + ".y" * 3000,
        " + ".join(["1"] * 20000),
        "9" * 9000,
    ],
)
def test_expressions_of_great_depth(write, value):
    assert judge(write(body(f"x = {value}"))) == ""
    assert judge(write(f"X = {value}\n" + body("pass"))) == ""


@pytest.mark.parametrize(
    "source",
    [
        "from .modeling_case import *\nfrom .modeling_case import Part as Part\n" + body("pass"),
        body("pass") + "\n\nclass A(B):\n    pass\n\n\nclass B(A):\n    pass\n",
        body("pass").replace("Part(nn.Module)", "Part(Part)"),
        body("pass").replace("CaseForCausalLM(nn.Module)", "CaseForCausalLM(CaseForCausalLM)"),
        body("hidden = self.forward(hidden)"),
        body("hidden = Part()(hidden)"),
        body("self.__getattr__('x')"),
        # every class derives from every other: more paths through them than anybody can walk
        "".join(
            f"class C{n}({', '.join(f'C{other}' for other in range(12) if other != n)}):\n    pass\n\n\n"
            for n in range(12)
        )
        + body("pass").replace("CaseForCausalLM(nn.Module)", "CaseForCausalLM(C0, C1, C2, nn.Module)"),
        "import os\nos.system('touch ran')\n" + body("os.remove('/etc/passwd')"),
    ],
)
def test_imports_inheritance_and_calls_in_circles(write, source):
    assert judge(write(source)) == ""


@pytest.mark.parametrize(
    "lines",
    [
        "for row in self.table:\n    hidden = hidden + row",
        "parts = self.table.split(1)",
        "parts = self.table.chunk(2**30)",
        "parts = self.table.tensor_split(2**30)",
        "parts = self.table.unbind(0)",
    ],
)
def test_tensors_in_more_pieces_than_can_be_held(write, lines):
    source = body(lines).replace(
        "    def forward(self, hidden)", "    table = torch.zeros(2**30, 8)\n\n    def forward(self, hidden)"
    )
    tracemalloc.start()
    assert judge(write(source)) == ""
    assert tracemalloc.get_traced_memory()[1] < 300_000_000
    tracemalloc.stop()


def test_what_nests_too_deeply_is_said_to(write):
    (unknown,) = kunport.analyze(write(body("x = hidden" + ".float()" * 300))).unknowns
    assert "too deeply" in unknown.args[0]


@pytest.mark.parametrize(
    "member", ["if x:\n        def forward(self, input_ids):\n            return 1", "forward = x"]
)
def test_a_forward_that_cannot_be_found_out(write, member):
    source = body("pass").replace(
        "    def forward(self, input_ids):", f"    {member}\n\n    def other(self, input_ids):"
    )
    assert judge(write(source)) == ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"\xff\xfe" + body("pass").encode("utf-16-le"),
        b"# -*- coding: latin-1 -*-\nX = '\xe9'\n" + body("pass").encode(),
        b"\xef\xbb\xbf" + body("pass").encode(),
        body("pass").encode() + b"\x00",
        body("x = '\ud800'").encode("utf-8", "surrogatepass"),
        body("pass").replace("\n", "\r").encode(),
        body("pass").replace("\n", "\r\n").encode(),
        b"x = 1 # " + b"y" * 9_000_000 + b"\n" + body("pass").encode(),
        b"\x1b[31mclass" + body("pass").encode(),
    ],
    ids=["empty", "nul", "utf-16", "latin-1", "bom", "nul-last", "surrogate", "cr", "crlf", "long-line", "escape"],
)
def test_encodings_and_bytes(write, data):
    assert judge(write(data)) == ""


@pytest.mark.parametrize("name", ["modeling_case.py", "config.json"])
def test_a_file_of_50_megabytes_is_refused_unread(write, name):
    folder = write(body("pass"))
    with (folder / name).open("ab") as file:
        file.truncate(50_000_000)
    with pytest.raises(kunport.KunportError, match="50,000,000 bytes"):
        kunport.analyze(folder)


def test_names_that_steer_a_terminal_are_never_printed_raw(write):
    config = {**CONFIG, "model_type": "\x1b[31m\u202ecase", "\x9bx": 1}
    for form in ("text", "json", "markdown", "html", "sarif"):
        assert judge(write(body("x = 'a\x1b]0;t\x07'\nhidden.odd\u00ad_thing()"), config), form) == ""


@pytest.mark.parametrize(
    "config",
    [
        "null",
        "[]",
        '"x"',
        "",
        "{" * 100_000,
        '{"a":' * 100_000,
        '{"vocab_size": 1e999}',
        '{"vocab_size": ' + "9" * 5000 + "}",
        {**CONFIG, "vocab_size": "16"},
        {**CONFIG, "vocab_size": -1},
        {**CONFIG, "hidden_size": 10**30},
        {**CONFIG, "hidden_size": None},
        {**CONFIG, "hidden_size": [[]]},
        {**CONFIG, "auto_map": {"AutoModelForCausalLM": "../../x.Y"}},
        {**CONFIG, "auto_map": {"AutoModelForCausalLM": 3}},
        {**CONFIG, "auto_map": []},
        {**CONFIG, "architectures": [None]},
        {**CONFIG, "model_type": {}},
    ],
)
def test_configurations_with_absurd_or_wrongly_typed_values(write, config):
    assert judge(write(body("pass"), config)) == ""


@pytest.mark.parametrize("name", ["modeling_case.py", "config.json"])
def test_a_link_out_of_the_folder_is_not_followed(write, tmp_path, name):
    folder = write("from .secret import KEY\n" + body("pass"))
    (tmp_path / "secret.py").write_text("KEY = 'abc'\n")
    (folder / "secret.py").symlink_to(tmp_path / "secret.py")
    assert judge(folder) == ""
    (folder / name).unlink()
    (folder / name).symlink_to(folder / name)
    assert judge(folder) == ""


@pytest.mark.parametrize("result", ["None", "{}", "[]", "3", "input_ids.shape", "self", "print"])
def test_a_model_that_returns_no_logits(write, result):
    source = body("pass").replace("return self.head(self.part(self.embed(input_ids)))", f"return {result}")
    assert judge(write(source)) == ""


def test_a_value_of_the_configuration_that_is_computed_for_ever(write):
    size = "-" * 200 + "config.hidden_size"
    assert judge(write(body("pass").replace("config.hidden_size", f"({size})"))) == ""
    lines = "size = config.hidden_size\n        for _ in range(3000):\n            size = -size"
    source = body("pass").replace(
        "super().__init__()\n        self.embed", f"super().__init__()\n        {lines}\n        self.embed"
    )
    assert (
        judge(write(source.replace("nn.Embedding(config.vocab_size, config.hidden_size)", "nn.Embedding(16, size)")))
        == ""
    )


def test_tables_of_an_absurd_size_are_not_made(write):
    table = "angles = torch.outer(torch.arange(self.size).float(), 1e4 ** (-torch.arange(0, 8, 2) / 8))"
    lines = f"{table}\n        hidden = hidden * angles.cos()[: hidden.shape[1]].repeat(1, 2) + angles.sin().sum()"
    source = body(lines).replace("    def forward(self, hidden)", "    size = 2**29\n\n    def forward(self, hidden)")
    tracemalloc.start()
    assert judge(write(source)) == ""
    assert tracemalloc.get_traced_memory()[1] < 300_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("number", range(0, 60, 5))
def test_a_few_cases_of_the_fuzzer(number, tmp_path):
    assert judge(write_case(number, 7, tmp_path / "case")) == ""


def test_a_case_is_the_same_every_time(tmp_path):
    first, second = (write_case(11, 3, tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in sorted((tmp_path / "a").iterdir())] == [
        path.read_bytes() for path in sorted((tmp_path / "b").iterdir())
    ]
    assert first.name in ("a", "modeling_case.py")
    assert second.name in ("b", "modeling_case.py")


def test_mutations_change_things():
    draw = random.Random(0)
    source = body("pass")
    assert len({grammar.mutate(source, draw) for _ in range(50)}) > 40
    assert len({noise.mutate(source.encode(), draw) for _ in range(50)}) > 45
    assert len({configs.mutate(CONFIG, draw) for _ in range(50)}) > 40
