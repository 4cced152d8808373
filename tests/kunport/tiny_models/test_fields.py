import pytest
from kunport.tiny_models import build_config, find_case
from kunport.tiny_models.fields import _shrink_pattern, tiny_fields
from transformers import CONFIG_MAPPING


@pytest.mark.parametrize(
    ("values", "shrunk"),
    [
        (list("aaaaaa"), list("aaaa")),
        (list("aaaaab"), list("aaab")),
        (list("aaaabc"), list("aacb")),
        (list("abcdef"), list("abcd")),  # no entry can be spared
    ],
)
def test_a_pattern_keeps_every_kind_of_layer_that_fits(values, shrunk):
    assert _shrink_pattern(values, 4) == shrunk


def test_engine_sizes_double_every_width_and_no_count():
    base, engine = (build_config(find_case("llama"), engine=engine) for engine in (False, True))
    assert engine.hidden_size == 2 * base.hidden_size == 128
    assert engine.head_dim == 2 * base.head_dim == 32
    assert engine.intermediate_size == 2 * base.intermediate_size
    assert engine.num_hidden_layers == base.num_hidden_layers == 4
    assert engine.vocab_size == base.vocab_size == 256


def test_engine_sizes_give_latent_attention_the_size_with_a_kernel():
    config = build_config(find_case("deepseek_v3"), engine=True)
    assert (config.kv_lora_rank, config.qk_rope_head_dim) == (512, 64)


def test_a_variant_that_drops_a_latent_keeps_it_dropped():
    assert build_config(find_case("deepseek_v3:no_q_lora"), engine=True).q_lora_rank is None


def test_grouped_heads_stay_grouped_and_multi_head_stays_multi_head():
    grouped, multi = build_config(find_case("mistral")), build_config(find_case("phi"))
    assert (grouped.num_attention_heads, grouped.num_key_value_heads) == (4, 2)
    assert multi.num_attention_heads == multi.num_key_value_heads == 4


def test_overrides_inside_dictionaries_are_widened():
    fields = tiny_fields(CONFIG_MAPPING["dbrx"], {"ffn_config": {"ffn_hidden_size": 32}}, width=2)
    assert fields["ffn_config"]["ffn_hidden_size"] == 64


def test_sub_configurations_are_tiny_too():
    config = build_config(find_case("blt"))
    assert config.decoder_config.hidden_size == 64


def test_special_tokens_fit_the_vocabulary():
    config = build_config(find_case("qwen3"))
    tokens = [config.bos_token_id, config.eos_token_id, config.pad_token_id]
    assert all(token is None or token < config.vocab_size for token in tokens)
