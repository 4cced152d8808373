"""A configuration with a size that no tensor has ends in a report that names the place, or in one sentence."""

import pytest
from kunport.description import describe
from kunport.tiny_models.build import build_config
from kunport.tiny_models.cases import find_case

import kunport


@pytest.mark.parametrize(
    ("model", "field", "value", "said"),
    [
        ("deepseek_v3", "num_attention_heads", 0, "a parameter of the shape (0, "),
        ("gpt_oss", "intermediate_size", 0, "a parameter of the shape (8, 64, 0)"),
        ("gpt_neo", "hidden_size", 0, "a parameter of the shape (256, 0)"),
        ("llama", "vocab_size", 0, "a parameter of the shape (0, 64)"),
        ("doge", "keep_window_size", -1, "topk: a size of -1"),
        ("qwen3_next", "linear_num_key_heads", -1, "reshape: a size of -"),
        ("diffllama", "head_dim", 3, "do not broadcast"),
    ],
)
def test_it_is_named(model, field, value, said):
    fields = build_config(find_case(model)).to_dict()
    description = describe(kunport.analyze(model, config={**fields, field: value}).graph)
    assert description.verdict == "not understood"
    assert said in description.unknowns[0].reason
