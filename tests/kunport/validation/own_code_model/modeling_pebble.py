"""A decoder such as a checkpoint brings with it: Llama's, with a norm per head and names of its own."""

import math

import torch
from torch import nn
from transformers.masking_utils import create_causal_mask
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel

from .configuration_pebble import PebbleConfig


class PebbleNorm(nn.Module):
    def __init__(self, size, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * wide.to(x.dtype)


def rotated(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos.unsqueeze(1) + torch.cat((-second, first), dim=-1) * sin.unsqueeze(1)


class PebbleAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.hidden_size // self.heads
        self.to_query = nn.Linear(config.hidden_size, self.heads * self.head_dim, bias=False)
        self.to_key = nn.Linear(config.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.to_value = nn.Linear(config.hidden_size, self.kv_heads * self.head_dim, bias=False)
        self.out = nn.Linear(self.heads * self.head_dim, config.hidden_size, bias=False)
        self.query_norm = PebbleNorm(self.head_dim, config.norm_epsilon)
        self.key_norm = PebbleNorm(self.head_dim, config.norm_epsilon)

    def forward(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        query = self.query_norm(self.to_query(x).view(batch, length, self.heads, self.head_dim)).transpose(1, 2)
        key = self.key_norm(self.to_key(x).view(batch, length, self.kv_heads, self.head_dim)).transpose(1, 2)
        value = self.to_value(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        query, key = rotated(query, cos, sin), rotated(key, cos, sin)
        key = key.repeat_interleave(self.heads // self.kv_heads, dim=1)
        value = value.repeat_interleave(self.heads // self.kv_heads, dim=1)
        scores = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(self.head_dim) + mask
        mixed = torch.matmul(torch.softmax(scores, dim=-1), value)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class PebbleFeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.to_gate = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.to_up = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.to_gate(x)) * self.to_up(x))


class PebbleBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention_norm = PebbleNorm(config.hidden_size, config.norm_epsilon)
        self.attention = PebbleAttention(config)
        self.feed_forward_norm = PebbleNorm(config.hidden_size, config.norm_epsilon)
        self.feed_forward = PebbleFeedForward(config)

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.attention_norm(x), cos, sin, mask)
        return x + self.feed_forward(self.feed_forward_norm(x))


class PebbleModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList([PebbleBlock(config) for _ in range(config.num_hidden_layers)])
        self.norm = PebbleNorm(config.hidden_size, config.norm_epsilon)

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        x = self.embedding(input_ids)
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=x,
            attention_mask=attention_mask,
            past_key_values=None,
            position_ids=position_ids,
        )
        size = self.config.hidden_size // self.config.num_attention_heads
        exponents = torch.arange(0, size, 2, dtype=torch.float32) / size
        frequencies = 1.0 / self.config.rope_parameters["rope_theta"] ** exponents
        angles = position_ids[:, :, None].float() * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin, mask)
        return self.norm(x)


class PebbleForCausalLM(PreTrainedModel):
    config_class = PebbleConfig
    base_model_prefix = "model"

    def __init__(self, config):
        super().__init__(config)
        self.model = PebbleModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, use_cache=None, **kwargs):
        x = self.model(input_ids, attention_mask=attention_mask, position_ids=position_ids)
        return CausalLMOutputWithPast(logits=self.lm_head(x))
