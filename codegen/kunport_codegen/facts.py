"""What recognition finds in a model graph: the operators that have a name in the field.

Each fact points at the nodes it covers and gives what an engine needs to know. Facts are made by
`kunport_codegen.recognition` and read by lowering and by the reports. Sizes and constants are
`Scalar` where they come from the configuration, so that both value and expression are at hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kunport_codegen.expression import Scalar
from kunport_codegen.graph import Location, Ref

Number = int | float | Scalar


@dataclass(slots=True)
class Norm:
    """A normalisation over the last dimension.

    Attributes:
        kind: ``rms`` (x / sqrt(mean(x^2) + eps)), ``layer`` (mean subtracted first), ``l2``.
        input, output: ids of the tensor read and of the node that holds the result.
        nodes: every node it covers.
        epsilon: the value added under the root, or the least length where an ``l2`` norm bounds that instead.
        weight, bias: paths of its parameters, None without.
        offset: what is added to the weight before it multiplies (1.0 for ``(1 + w)``).
        cast: where the result returns to the model's dtype: ``before_weight`` (``w * x.to(dtype)``), ``after_weight``
            (``(w * x).to(dtype)``), ``root`` (``x * rsqrt(...).to(dtype)``), or ``none`` (computed in the model's dtype
            throughout).
        size: length of the normalised dimension.
        per_head: the weight spans one head (``[head_dim]``) of a ``[..., heads, head_dim]`` tensor.
        groups: vectors of ``size`` elements that are normalised apart and have one weight of ``groups * size`` elements
            together; None where all vectors share the weight. Input and output are ``[..., groups, size]`` or
            ``[..., groups * size]``.
    """

    kind: str
    input: int
    output: int
    nodes: frozenset[int]
    epsilon: Number
    weight: str | None
    bias: str | None
    offset: float
    cast: str
    size: Number
    per_head: bool
    frame: int
    where: Location
    groups: Number | None = None


@dataclass(slots=True)
class RopeTable:
    """Where cosines and sines come from: a rotary module's frame.

    ``rope_type`` is the value of the configuration's own field ("default", "llama3", "yarn", ...), ``parameters`` the
    configuration path of the dictionary that describes it (``rope_parameters`` or
    ``rope_parameters['sliding_attention']``; empty where theta is no field of one), ``theta`` the base, ``rotary_dim``
    the number of elements of a head that are rotated (an odd one counts up to the next pair), ``scaling`` the factor on
    both tables (1.0 by default). ``cos`` and ``sin`` are the ids of the tables, one id where a table is complex.
    ``own`` are the frequencies of a table that no description in the configuration gives: its type is then that of the
    formula that the source spells out, "" without theta where it is none known here, and "dynamic" where theta follows
    from the length of the input, of which the frequencies are those of the length that was read.
    """

    cos: int
    sin: int
    rope_type: str
    parameters: str
    theta: Number
    rotary_dim: Number
    scaling: float
    frame: int
    where: Location
    nodes: frozenset[int] = frozenset()
    own: tuple[float, ...] = ()


@dataclass(slots=True)
class Rope:
    """The rotation of one tensor, query or key.

    ``style`` is ``half`` (element i pairs with i + rotary_dim / 2; "neox") or ``interleaved`` (2i with 2i + 1).
    ``regrouped`` is true where the pairs are taken apart: all first elements, then all second ones. ``backwards`` is
    true where a pair turns by the negative angle.
    ``input`` and ``output`` are ids; ``nodes`` covers what only this rotation computes. ``upcast`` is true where it
    is computed in float32, and ``returns`` where the result has the dtype of its input.
    """

    input: int
    output: int
    nodes: frozenset[int]
    table: RopeTable
    style: str
    upcast: bool
    frame: int
    where: Location
    returns: bool = True
    regrouped: bool = False
    backwards: bool = False


@dataclass(slots=True)
class Attention:
    """Softmax attention from query, key and value to the combined heads.

    ``query`` ``[batch, heads, sequence, head_dim]``, ``key`` and ``value`` ``[batch, kv_heads, sequence, head_dim]``
    are ids of the tensors before the key-value heads are repeated. ``output`` is the id of the first node that holds
    ``[batch, sequence, heads, head_dim]`` (or heads before sequence, see ``heads_first``).
    ``scale`` multiplies the scores, ``softcap`` is c in c * tanh(scores / c). ``mask`` and ``window`` are those of the
    graph's ``mask`` operator; without any mask the attention is ``bidirectional``. ``sinks`` is the path of a learned
    sink per head. ``upcast`` is true where the softmax runs in float32. ``bias`` is the id of a tensor that is added to
    the scores beside the mask, broadcast to ``[batch, heads, query, key]`` (with batch and heads in one dimension where
    the source has them so): ALiBi if ``alibi``, or one that leaves only the keys that the operator ``selection`` (an
    id) chose. With ``key_transposed`` the key is ``[batch, kv_heads, head_dim, sequence]``.
    """

    query: int
    key: int
    value: int
    output: int
    heads_first: bool
    nodes: frozenset[int]
    heads: Number
    kv_heads: Number
    head_dim: Number
    value_dim: Number
    scale: Number
    softcap: Number | None
    mask: str
    window: Number | None
    sinks: str | None
    upcast: bool
    frame: int
    where: Location
    bias: int | None = None
    alibi: bool = False
    selection: int | None = None
    key_transposed: bool = False


@dataclass(slots=True)
class Experts:
    """A router and a set of experts, from flattened tokens to their weighted sum.

    The router: ``logits`` is the id of its logits ``[tokens, experts]`` (``router_weight`` the path of the parameter
    that makes them, empty where none does directly). ``scoring`` makes scores of them: ``softmax``, ``sigmoid``,
    ``sqrt_softplus`` or ``none``. The ``top_k`` experts with the best scores are chosen, where ``correction_bias`` (a
    path, ``[experts]``) is added for the choice alone, and where only experts of the ``top_groups`` best of ``groups``
    groups may be chosen, a group being as good as its ``group_score`` (``max`` or ``sum of top 2``). The scores of the
    chosen are their weights, divided by their sum if ``renormalize`` (``epsilon`` is added to the sum, or is the least
    that it may be), times ``scale``. ``weighted`` says whether they weight an expert's ``output`` or ``input``.
    ``weights`` and ``choice`` are the ids of what the router makes, ``[tokens, top_k]`` each, where the source makes
    such tensors; a choice may be the number after the last expert's, for none, if ``absent``. A router of which no
    formula is known has no ``scoring`` and no ``logits``.

    The experts: ``gate_up`` and ``down`` are paths of ``[experts, 2 * intermediate, hidden]`` and ``[experts, hidden,
    intermediate]`` (the last two dimensions swapped if ``transposed``), with biases if they have any. An expert is
    ``down(activation(gate) * (up + up_offset))``, or ``down(activation(up))`` if not ``gated``. ``packing`` says where
    gate and up are: ``concatenated`` (gate first), ``concatenated_up_first``, ``interleaved`` (gate even),
    ``interleaved_up_first``, or ``single``. With a ``limit`` the gate is at most that and up within plus and minus it.
    ``input`` and ``output`` are ids of ``[tokens, hidden]``.
    """

    input: int
    logits: int | None
    router_weight: str
    output: int
    nodes: frozenset[int]
    experts: Number
    top_k: Number
    scoring: str | None
    renormalize: bool
    gate_up: str
    down: str
    activation: str
    frame: int
    where: Location
    correction_bias: str | None = None
    groups: Number | None = None
    top_groups: Number | None = None
    group_score: str | None = None
    scale: Number = 1.0
    epsilon: Number | None = None
    weighted: str = "output"
    gated: bool = True
    packing: str = "concatenated"
    transposed: bool = False
    gate_up_bias: str | None = None
    down_bias: str | None = None
    limit: Number | None = None
    up_offset: float = 0.0
    weights: int | None = None
    choice: int | None = None
    absent: bool = False


@dataclass(slots=True)
class Activation:
    """An elementwise activation from ``input`` to ``output`` (ids), one operator or spelled out.

    ``name`` is ``silu`` (``x * sigmoid(x)``), ``gelu``, ``gelu_tanh`` (its approximation), ``quick_gelu``
    (``x * sigmoid(1.702 * x)``), ``relu``, ``relu2`` (``relu(x) ** 2``) or ``xielu`` (arXiv:2411.13010, with learned
    slopes, which are no part of the fact).
    """

    name: str
    input: int
    output: int
    nodes: frozenset[int]
    frame: int
    where: Location


@dataclass(slots=True)
class Mixer:
    """A token mixer that is no softmax attention, known by its family; its numbers are not compared with a formula.

    ``kind`` is ``mamba`` (a state matrix of channels by states), ``mamba2`` (a number a head), ``gated_delta``,
    ``rg_lru``, ``rwkv``, ``mlstm``, ``linear`` (attention without softmax, with a fixed decay) or
    ``short_convolution``. ``input`` and ``output`` are ids of the module call ``frame``, ``nodes`` all that it
    computes, its projections included. ``convolution`` is the path of the kernel of its convolution over tokens,
    ``kernel`` that kernel's length; both None without.
    """

    kind: str
    input: int
    output: int
    nodes: frozenset[int]
    convolution: str | None
    kernel: Number | None
    frame: int
    where: Location


@dataclass(slots=True)
class StateOperator:
    """An operator that keeps a state of each sequence, proved to be one of the runtime's by its numbers or its form.

    Attributes:
        kind: the operator's name: ``short_convolution``, ``mamba1_scan``, ``mamba2_scan``, ``gated_delta_rule``, ...
        inputs: what it reads -> id of that tensor; a value for each token has one axis for the batch and one for
            the sequence.
        sizes: of its state, in the order in which a layer is made with them.
        options: what else a layer is made with, where that is not its default.
        weight, bias: paths of its own parameters, None without.
        output: id of the node that holds the result.
        nodes: every node it covers.
    """

    kind: str
    inputs: dict[str, int]
    sizes: dict[str, Number]
    options: dict[str, Number | str | bool]
    weight: str | None
    bias: str | None
    output: int
    nodes: frozenset[int]
    frame: int
    where: Location


@dataclass(slots=True)
class Facts:
    """All that was recognised, in order of the graph.

    ``listed_experts`` are those that are modules of a list: there ``gate_up`` and ``down`` are paths of the first one's
    weights, the gate's or the up's alone where ``packing`` is ``separate``.
    """

    norms: list[Norm] = field(default_factory=list)
    tables: list[RopeTable] = field(default_factory=list)
    ropes: list[Rope] = field(default_factory=list)
    attentions: list[Attention] = field(default_factory=list)
    experts: list[Experts] = field(default_factory=list)
    listed_experts: list[Experts] = field(default_factory=list)
    activations: list[Activation] = field(default_factory=list)
    mixers: list[Mixer] = field(default_factory=list)
    states: list[StateOperator] = field(default_factory=list)


__all__ = [
    "Activation",
    "Attention",
    "Experts",
    "Facts",
    "Mixer",
    "Norm",
    "Number",
    "Ref",
    "Rope",
    "RopeTable",
    "StateOperator",
]
