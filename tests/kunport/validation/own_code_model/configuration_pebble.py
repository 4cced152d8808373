"""Configuration of a model that only its checkpoint knows."""

from transformers import PretrainedConfig


class PebbleConfig(PretrainedConfig):
    model_type = "pebble"

    def __init__(
        self,
        vocab_size: int = 256,
        hidden_size: int = 128,
        intermediate_size: int = 192,
        num_hidden_layers: int = 2,
        num_attention_heads: int = 4,
        num_key_value_heads: int = 2,
        max_position_embeddings: int = 512,
        norm_epsilon: float = 1e-6,
        rope_parameters: dict | None = None,
        tie_word_embeddings: bool = False,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.max_position_embeddings = max_position_embeddings
        self.norm_epsilon = norm_epsilon
        self.rope_parameters = rope_parameters or {"rope_type": "default", "rope_theta": 10000.0}
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)
