"""Modeling code that comes with a checkpoint: old interfaces, optional kernels, relative imports."""

import importlib
import json
import sys

import pytest
import torch
from kunport.analysis import analyze
from kunport.errors import KunportError
from kunport.validation.executor import execute

CONFIGURATION = """
from transformers import PretrainedConfig


class SampleConfig(PretrainedConfig):
    model_type = "sample_lm"

    def __init__(self, vocab_size=64, hidden_size=32, num_heads=4, n_layers=2, eps=1e-5, use_bias=False, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.n_layers = n_layers
        self.eps = eps
        self.use_bias = use_bias
        super().__init__(**kwargs)
"""

MODELING = """
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import logging

from .configuration_sample import SampleConfig

try:
    from flash_attn import flash_attn_func
except ImportError:
    flash_attn_func = None
try:
    from apex.normalization import FusedRMSNorm

    HAS_APEX = True
except Exception:
    HAS_APEX = False
logger = logging.get_logger(__name__)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_heads
        self.dim = config.hidden_size // self.heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=config.use_bias)
        self.out = nn.Linear(config.hidden_size, config.hidden_size, bias=config.use_bias)

    def forward(self, x, mask):
        b, s, h = x.shape
        q, k, v = self.qkv(x).view(b, s, self.heads, 3, self.dim).unbind(3)
        if flash_attn_func is not None:
            y = flash_attn_func(q, k, v, causal=True)
        else:
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.dim)
            scores = scores.masked_fill(mask, float("-inf"))
            y = torch.einsum("bhqk,bkhd->bqhd", scores.float().softmax(-1).to(v.dtype), v)
        return self.out(y.reshape(b, s, h))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        norm = FusedRMSNorm if HAS_APEX else RMSNorm
        self.n1, self.n2 = norm(config.hidden_size, config.eps), norm(config.hidden_size, config.eps)
        self.attn = Attention(config)
        self.mlp = nn.Sequential(nn.Linear(config.hidden_size, 64), nn.GELU(), nn.Linear(64, config.hidden_size))

    def forward(self, x, mask):
        x = x + self.attn(self.n1(x), mask)
        return x + self.mlp(self.n2(x))


class SamplePreTrainedModel(PreTrainedModel):
    config_class = SampleConfig
    base_model_prefix = "model"

    def _init_weights(self, module):
        pass


class SampleModel(SamplePreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.emb = nn.Embedding(config.vocab_size, config.hidden_size)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layers)])
        self.norm = RMSNorm(config.hidden_size, config.eps)
        self.post_init()

    def forward(self, input_ids=None, past_key_values=None, use_cache=None, **kwargs):
        if self.training and use_cache:
            logger.warning_once("no cache while training")
        x = self.emb(input_ids)
        s = x.shape[1]
        mask = torch.triu(torch.ones(s, s, dtype=torch.bool, device=x.device), diagonal=1)[None, None]
        for block in self.blocks:
            x = block(x, mask)
        return (self.norm(x),)


class SampleForCausalLM(SamplePreTrainedModel):
    _tied_weights_keys = {"head.weight": "model.emb.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = SampleModel(config)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids=None, labels=None, use_cache=None, **kwargs):
        logits = self.head(self.model(input_ids=input_ids, use_cache=use_cache)[0]).float()
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))
        return CausalLMOutputWithPast(loss=loss, logits=logits)
"""

CONFIG = {
    "model_type": "sample_lm",
    "architectures": ["SampleForCausalLM"],
    "auto_map": {
        "AutoConfig": "configuration_sample.SampleConfig",
        "AutoModelForCausalLM": "modeling_sample.SampleForCausalLM",
    },
    "hidden_size": 32,
    "tie_word_embeddings": True,
}


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "sample_package"
    folder.mkdir()
    (folder / "configuration_sample.py").write_text(CONFIGURATION)
    (folder / "modeling_sample.py").write_text(MODELING)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def test_custom_code_is_read(checkpoint, monkeypatch):
    analysis = analyze(checkpoint)
    assert not analysis.unknowns
    assert analysis.graph.tied == [("head.weight", "model.emb.weight")]
    assert {"modeling_sample.py", "configuration_sample.py"} <= analysis.sources.keys()
    assert {node.where.file for node in analysis.graph.nodes} == {"modeling_sample.py"}
    monkeypatch.syspath_prepend(checkpoint.parent)
    try:
        modeling = importlib.import_module("sample_package.modeling_sample")
        torch.manual_seed(0)
        model = modeling.SampleForCausalLM(modeling.SampleConfig(hidden_size=32)).eval()
    finally:
        for name in [each for each in sys.modules if each.startswith("sample_package")]:
            del sys.modules[name]
    ids = torch.randint(64, (3, 7))
    tensors = {name: each.detach() for name, each in model.named_parameters(remove_duplicate=False)}
    with torch.no_grad():
        assert torch.equal(execute(analysis.graph, tensors, ids), model(input_ids=ids).logits)


def test_a_broken_modeling_file_is_named_with_its_line(checkpoint):
    path = checkpoint / "modeling_sample.py"
    path.write_text(path.read_text() + "\n\ndef never_reached(:\n    pass\n")
    line = len(path.read_text().splitlines()) - 1
    with pytest.raises(KunportError, match=rf"modeling_sample\.py, line {line}, is not valid Python"):
        analyze(checkpoint)


def test_code_that_calls_an_absent_kernel_says_which(checkpoint):
    path = checkpoint / "modeling_sample.py"
    text = path.read_text().replace("if flash_attn_func is not None:", "if True:")
    path.write_text(text.replace("    flash_attn_func = None", "    from fast_kernels import flash_attn_func"))
    analysis = analyze(checkpoint)
    assert all("fast_kernels.flash_attn_func" in node.args[0] for node in analysis.unknowns)
    assert len(analysis.unknowns) == 2
