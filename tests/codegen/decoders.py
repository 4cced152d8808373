"""Small decoders as graphs: module tree, frames and operators as the analysis of a source would give them.

A `Decoder` says what is special about one; `build` writes its graph. Sizes come from its configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import graph_builder
from graph_builder import BATCH, FLOAT32, MODEL, SEQUENCE, GraphBuilder, Tensor
from kunport_codegen import expression
from kunport_codegen.expression import Scalar
from kunport_codegen.graph import Frame, Graph, Guard, Location, Module, Ref


@dataclass(frozen=True)
class Decoder:
    """One decoder.

    Attributes:
        norm: ``before`` or ``after`` (where an RMS norm casts), ``gemma``, ``layer``, ``bare`` (layer norm without
            weight), or ``odd``, a form that the engine has no layer for.
        residual: ``pre``, ``post``, ``sandwich``, ``parallel`` (two norms), ``shared`` (parallel, one norm) or ``single``
            (attention alone).
        projections: ``separate``, ``fused`` (query, key, value), ``grouped`` (by key-value head), ``reversed`` (value first).
        gate: ``separate``, ``fused``, ``swapped`` (up first), ``woven`` (rows of both in turn) or ``none`` (a plain MLP).
        query_norm: ``head``, ``full`` or "" for none.
        plain: whether the first layer's MLP is of another class, one without a gate.
        spelling: how linear layers are written: ``linear``, ``addmm`` (of ``[inputs, outputs]``, with a bias) or ``turned``
            (a product with the transpose, a bias added after it).
        places: learned positions: ``counted`` (an arange), ``summed`` (a running sum of ones, from 2 on), ``cut`` (a
            table of all numbers, cut), or "" for none; ``waves`` is a computed table, of which one row is set to zero.
        repeats: where key-value heads are repeated: ``late`` (after the rotation) or ``early`` (before it).
        windows, rotated: by layer, whether it has a window, and whether it rotates; they also give the number of layers.
    """

    norm: str = "before"
    residual: str = "pre"
    projections: str = "separate"
    gate: str = "separate"
    activation: str = "silu"
    query_norm: str = ""
    windows: tuple[bool, ...] = (False, False, False)
    rotated: tuple[bool, ...] = (True, True, True)
    plain: bool = False
    spelling: str = "linear"
    places: str = ""
    repeats: str = "late"
    style: str = "half"
    rotary_dim: int = 4
    kv_heads: int = 2
    bias: bool = False
    tied: bool = False
    embedding_scale: bool = False
    multiplier: bool = False
    logits: str = ""

    def config(self) -> dict[str, Any]:
        return {
            "model_type": "tiny",
            "vocab_size": 11,
            "hidden_size": 16,
            "intermediate_size": 12,
            "num_hidden_layers": len(self.windows),
            "num_attention_heads": 4,
            "num_key_value_heads": self.kv_heads,
            "head_dim": 4,
            "rotary_dim": self.rotary_dim,
            "max_position_embeddings": 64,
            "rms_norm_eps": 1e-3,
            "sliding_window": 3,
            "layer_types": ["sliding_attention" if window else "full_attention" for window in self.windows],
            "plain_layers": [int(self.plain and not index) for index in range(len(self.windows))],
            "no_rope_layers": [int(rotated) for rotated in self.rotated],
            "attention_bias": self.bias,
            "residual_multiplier": 0.5,
            "logit_scale": 0.25,
            "softcap": 3.0,
            "tie_word_embeddings": self.tied,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
        }


@dataclass
class ModelBuilder(GraphBuilder):
    """A `GraphBuilder` that knows in which module's forward it is, and that keeps the module tree."""

    decoder: Decoder
    tables: tuple[Tensor, Tensor] | None = None
    path: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        GraphBuilder.__init__(self, self.decoder.config())
        self.result.modules[""] = Module("", "TinyForCausalLM", None, Location("tiny.py", 1))
        self.frame = 0

    def __hash__(self) -> int:
        return id(self)

    def size(self, name: str) -> Scalar:
        return expression.field(name, self.result.config[name])

    @contextmanager
    def module(self, path: str, cls: str, leaf: str | None = None, **inputs: Tensor) -> Iterator[None]:
        """The forward of a module."""
        line = 10 * len(self.result.modules)
        self.result.modules.setdefault(path, Module(path, cls, leaf, Location("tiny.py", line)))
        parent = self.frame
        bound = {name: Ref(tensor.id) for name, tensor in inputs.items()}
        self.result.frames.append(
            Frame(len(self.result.frames), parent, "module", cls, path, Location("tiny.py", line), bound)
        )
        self.frame = len(self.result.frames) - 1
        yield
        self.frame = parent

    def _add(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], kind: Any) -> Tensor:
        tensor = super()._add(op, args, kwargs, kind)
        self.nodes[-1].frame = 0 if op == "parameter" else self.frame
        return tensor

    def linear(self, path: str, x: Tensor, outputs: Any, inputs: Any, bias: Any = False) -> Tensor:
        with self.module(path, "Linear", "Linear", input=x):
            self.result.modules[path].attributes.update(has_bias=bias)
            if self.decoder.spelling == "addmm":
                turned = self.parameter(f"{path}.weight", inputs, outputs)
                rows = x.reshape((-1, inputs))
                product = self.apply("addmm", self.parameter(f"{path}.bias", outputs), rows, turned)
                return product.reshape((BATCH, SEQUENCE, outputs))
            weight = self.parameter(f"{path}.weight", outputs, inputs)
            if self.decoder.spelling == "turned":
                product = x @ self.apply("T", weight)
                return product + self.parameter(f"{path}.bias", outputs) if expression.unwrap(bias) else product
            if not expression.unwrap(bias):
                return self.apply("linear", x, weight)
            return self.apply("linear", x, weight, self.parameter(f"{path}.bias", outputs))

    def norm(self, path: str, x: Tensor, size: Any, kind: str | None = None) -> Tensor:
        """A norm over the last axis in a module of its own."""
        kind = kind or self.decoder.norm
        epsilon = self.size("rms_norm_eps")
        with self.module(path, "TinyNorm", None, hidden_states=x):
            if kind == "bare":
                return self.apply("layer_norm", x, (size,), None, None, epsilon)
            weight = self.parameter(f"{path}.weight", size)
            if kind == "layer":
                return self.apply("layer_norm", x, (size,), weight, self.parameter(f"{path}.bias", size), epsilon)
            wide = x.to(FLOAT32)
            normed = wide * (wide.pow(2).mean(dim=-1, keepdim=True) + epsilon).rsqrt()
            if kind == "before":
                return weight * normed.to(MODEL)
            if kind == "odd":
                return (weight + 1.0) * normed.to(MODEL)
            scale = 1.0 + weight.to(FLOAT32) if kind == "gemma" else weight
            return (normed * scale if kind == "gemma" else scale * normed).to(MODEL)


def build(decoder: Decoder) -> Graph:
    """The graph of a decoder, from token ids to logits."""
    it = ModelBuilder(decoder)
    ids = it._add(
        "input", ("input_ids",), {}, graph_builder.TensorType((BATCH, SEQUENCE), graph_builder.DType("int64"))
    )
    hidden_size, vocab = it.size("hidden_size"), it.size("vocab_size")
    it.result.guards += _guards(decoder)
    with it.module("", "TinyForCausalLM", input_ids=ids):
        with it.module("model", "TinyModel", input_ids=ids):
            hidden = _embedding(it, ids, vocab, hidden_size)
            if decoder.places:
                hidden = hidden + _places(it, hidden_size)
            it.tables = _tables(it)
            it.result.modules["model.layers"] = Module("model.layers", "ModuleList", None, Location("tiny.py", 2))
            for index in range(len(decoder.windows)):
                hidden = _layer(it, index, hidden)
            hidden = it.norm("model.norm", hidden, hidden_size)
        logits = _head(it, hidden, vocab, hidden_size)
    it.result.output = Ref(logits.id)
    return it.result


def _guards(decoder: Decoder) -> list[Guard]:
    where = Location("tiny.py", 3)
    bias = expression.Expr("field", ("attention_bias",))
    kind = expression.Expr("eq", (expression.Expr("field", ("hidden_act",)), expression.const(decoder.activation)))
    cache = expression.Expr("field", ("use_cache",))
    return [Guard(bias, decoder.bias, where), Guard(kind, True, where), Guard(cache, False, where)]


def _embedding(it: ModelBuilder, ids: Tensor, vocab: Scalar, hidden_size: Scalar) -> Tensor:
    path = "model.embed_tokens"
    scale = expression.apply("pow", hidden_size, 0.5)
    with it.module(path, "TinyEmbedding", "Embedding", input=ids):
        it.result.modules[path].attributes["scalar_embed_scale"] = scale
        vectors = it.apply("embedding", ids, it.parameter(f"{path}.weight", vocab, hidden_size))
        if not it.decoder.embedding_scale:
            return vectors
        return vectors * it.apply("tensor", scale, dtype=MODEL)


def _places(it: ModelBuilder, hidden_size: Scalar) -> Tensor:
    """A vector for each position, ``[batch or 1, sequence, hidden_size]``."""
    length = it.size("max_position_embeddings")
    if it.decoder.places == "waves":
        steps = it.arange(length).to(FLOAT32).unsqueeze(1) * (it.arange(hidden_size).to(FLOAT32) + 1.0).reciprocal()
        table = it.apply("setitem", steps.sin(), (1, slice(None)), 0)
        return table.to(MODEL)[(it.arange(SEQUENCE).unsqueeze(0), slice(None))]
    if it.decoder.places == "summed":
        ones = it.apply("ones", (BATCH, SEQUENCE), dtype=FLOAT32)
        counted = (ones.cumsum(dim=1) * ones - 1).to(graph_builder.DType("int64")) + 2
    elif it.decoder.places == "cut":
        counted = it.arange(length)[(None, slice(None, SEQUENCE))]
    else:
        counted = it.arange(SEQUENCE).unsqueeze(0)
    with it.module("model.positions", "Embedding", "Embedding", input=counted):
        return it.apply("embedding", counted, it.parameter("model.positions.weight", length, hidden_size))


def _tables(it: ModelBuilder) -> tuple[Tensor, Tensor]:
    with it.module("model.rotary_emb", "TinyRotary"):
        dim = it.size("head_dim" if it.decoder.rotary_dim == 4 else "rotary_dim")
        exponent = it.arange(0, dim, 2, dtype=FLOAT32) / dim
        frequencies = 1.0 / expression.field("rope_parameters['rope_theta']", 100.0) ** exponent
        angles = it.arange(SEQUENCE).unsqueeze(0)[..., None].to(FLOAT32) * frequencies
        angles = it.cat(angles, angles) if it.decoder.style == "half" else angles.repeat_interleave(2, dim=-1)
        return angles.cos().to(MODEL), angles.sin().to(MODEL)


def _layer(it: ModelBuilder, index: int, hidden: Tensor) -> Tensor:
    path, size = f"model.layers.{index}", it.size("hidden_size")
    with it.module(path, "TinyLayer", hidden_states=hidden):
        residual = it.decoder.residual
        first = hidden if residual == "post" else it.norm(f"{path}.input_norm", hidden, size)
        attended = _attention(it, index, first)
        if residual in ("parallel", "shared"):
            second = first if residual == "shared" else it.norm(f"{path}.second_norm", hidden, size)
            return hidden + attended + _mlp(it, path, second)
        if residual in ("post", "sandwich"):
            attended = it.norm(f"{path}.attention_norm", attended, size)
        hidden = hidden + _scaled(it, attended)
        if residual == "single":
            return hidden
        second = hidden if residual == "post" else it.norm(f"{path}.second_norm", hidden, size)
        out = _mlp(it, path, second)
        if residual in ("post", "sandwich"):
            out = it.norm(f"{path}.mlp_norm", out, size)
        return hidden + _scaled(it, out)


def _scaled(it: ModelBuilder, x: Tensor) -> Tensor:
    return x * it.size("residual_multiplier") if it.decoder.multiplier else x


def _attention(it: ModelBuilder, index: int, x: Tensor) -> Tensor:
    decoder, path = it.decoder, f"model.layers.{index}.attention"
    hidden_size, head_dim = it.size("hidden_size"), it.size("head_dim")
    heads, kv_heads = it.size("num_attention_heads"), it.size("num_key_value_heads")
    with it.module(path, "TinyAttention", hidden_states=x):
        it.result.modules[path].attributes["head_dim"] = head_dim
        query, key, value = _projected(it, path, x)
        if decoder.query_norm == "head":
            query, key = (it.norm(f"{path}.{name}_norm", t, head_dim) for name, t in (("q", query), ("k", key)))
        groups = expression.unwrap(heads) // expression.unwrap(kv_heads)
        if groups > 1 and decoder.repeats == "early":
            shape = (BATCH, SEQUENCE, kv_heads, groups, head_dim)
            key, value = (t[:, :, :, None].expand(shape).flatten(2, 3) for t in (key, value))
        query, key, value = (t.transpose(1, 2) for t in (query, key, value))
        if decoder.rotated[index]:
            query, key = (_rotated(it, t) for t in (query, key))
        if groups > 1 and decoder.repeats == "late":
            key, value = (_repeated(t, groups) for t in (key, value))
        scores = (query @ key.transpose(2, 3)) * expression.apply("pow", head_dim, -0.5)
        window = it.size("sliding_window") if decoder.windows[index] else None
        scores = scores + it.mask("sliding" if window is not None else "causal", window)
        combined = scores.softmax(dim=-1, dtype=FLOAT32).to(MODEL) @ value
        combined = combined.transpose(1, 2).reshape((BATCH, SEQUENCE, -1))
        return it.linear(f"{path}.o_proj", combined, hidden_size, expression.apply("mul", heads, head_dim))


def _projected(it: ModelBuilder, path: str, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value, ``[batch, sequence, heads, head_dim]``."""
    hidden_size, head_dim = it.size("hidden_size"), it.size("head_dim")
    heads, kv_heads = it.size("num_attention_heads"), it.size("num_key_value_heads")
    bias = expression.field("attention_bias", it.decoder.bias)
    wide, narrow = expression.apply("mul", heads, head_dim), expression.apply("mul", kv_heads, head_dim)

    def split(t: Tensor) -> Tensor:
        return t.reshape((BATCH, SEQUENCE, -1, head_dim))

    if it.decoder.projections == "separate":
        q, k, v = (
            it.linear(f"{path}.{name}_proj", x, outputs, hidden_size, bias)
            for name, outputs in (("q", wide), ("k", narrow), ("v", narrow))
        )
        if it.decoder.query_norm == "full":
            q, k = it.norm(f"{path}.q_norm", q, wide), it.norm(f"{path}.k_norm", k, narrow)
        return split(q), split(k), split(v)
    total = expression.apply("add", wide, expression.apply("mul", 2, narrow))
    fused = it.linear(f"{path}.qkv", x, total, hidden_size, bias)
    if it.decoder.projections == "grouped":
        groups = expression.unwrap(heads) // expression.unwrap(kv_heads)
        grouped = fused.reshape((BATCH, SEQUENCE, kv_heads, groups + 2, head_dim))
        query = grouped[:, :, :, :-2].reshape((BATCH, SEQUENCE, heads, head_dim))
        return query, grouped[:, :, :, -2], grouped[:, :, :, -1]
    if it.decoder.projections == "reversed":
        parts = fused.split([narrow, narrow, wide], dim=-1)
        return split(parts.item(2)), split(parts.item(1)), split(parts.item(0))
    return (
        split(fused[..., :wide]),
        split(fused[..., wide : expression.apply("add", wide, narrow)]),
        split(fused[..., expression.apply("add", wide, narrow) :]),
    )


def _rotated(it: ModelBuilder, x: Tensor) -> Tensor:
    assert it.tables is not None
    cos, sin = (table.unsqueeze(1) for table in it.tables)
    whole, dim = x, it.decoder.rotary_dim
    if dim < 4:
        x = x[..., :dim]
    if it.decoder.style == "half":
        turned = it.cat(-x[..., dim // 2 :], x[..., : dim // 2])
    else:
        turned = it.stack(-x[..., 1::2], x[..., 0::2]).flatten(-2)
    rotated = x * cos + turned * sin
    return it.cat(rotated, whole[..., dim:]) if dim < 4 else rotated


def _repeated(x: Tensor, groups: int) -> Tensor:
    batch, heads, sequence, dim = x.kind.shape
    copies = x[:, :, None, :, :].expand((batch, heads, groups, sequence, dim))
    return copies.reshape((batch, expression.apply("mul", heads, groups), sequence, dim))


def _mlp(it: ModelBuilder, layer: str, x: Tensor) -> Tensor:
    path, hidden_size, size = f"{layer}.mlp", it.size("hidden_size"), it.size("intermediate_size")
    plain = it.decoder.plain and layer.endswith(".0")
    with it.module(path, "TinyPlainMLP" if plain else "TinyMLP", x=x):
        if it.decoder.gate == "none" or plain:
            inner = _activated(it, path, it.linear(f"{path}.{'inner' if plain else 'up'}_proj", x, size, hidden_size))
        else:
            gate, up = _gate_and_up(it, path, x)
            inner = _activated(it, path, gate) * up
        return it.linear(f"{path}.down_proj", inner, hidden_size, size)


def _activated(it: ModelBuilder, path: str, x: Tensor) -> Tensor:
    with it.module(f"{path}.act_fn", "Activation", input=x):
        return (
            it.apply("gelu", x, approximate="tanh")
            if it.decoder.activation == "gelu"
            else it.apply(it.decoder.activation, x)
        )


def _gate_and_up(it: ModelBuilder, path: str, x: Tensor) -> tuple[Tensor, Tensor]:
    hidden_size, size = it.size("hidden_size"), it.size("intermediate_size")
    if it.decoder.gate == "separate":
        gate = it.linear(f"{path}.gate_proj", x, size, hidden_size)
        return gate, it.linear(f"{path}.up_proj", x, size, hidden_size)
    fused = it.linear(f"{path}.gate_up", x, expression.apply("mul", 2, size), hidden_size)
    if it.decoder.gate == "woven":
        return fused[..., ::2], fused[..., 1::2]
    halves = fused.chunk(2, dim=-1)
    first, second = halves.item(0), halves.item(1)
    return (second, first) if it.decoder.gate == "swapped" else (first, second)


def _head(it: ModelBuilder, hidden: Tensor, vocab: Scalar, hidden_size: Scalar) -> Tensor:
    logits = it.linear("lm_head", hidden[:, 0:, :], vocab, hidden_size)
    if it.decoder.tied:
        it.result.tied.append(("lm_head.weight", "model.embed_tokens.weight"))
    if it.decoder.logits == "scale":
        logits = logits * it.size("logit_scale")
    elif it.decoder.logits == "divide":
        logits = logits / it.size("logit_scale")
    elif it.decoder.logits == "cap":
        logits = (logits / it.size("softcap")).tanh() * it.size("softcap")
    return logits
