"""What validation found out: plain data, complete enough to be judged without running anything again.

Nothing here imports torch, Transformers or vLLM: reports are made, read and rendered anywhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kunport.validation.limits import Limits

RUNNING, PASSED = "running", "passed"
FAILED, CRASHED, KILLED, TIMED_OUT, STOPPED = "failed", "crashed", "killed", "timed out", "stopped"


@dataclass(slots=True)
class Stage:
    """One step of the work.

    Attributes:
        process: who does it: ``reference`` (Transformers), ``engine`` (vLLM) or ``kunport``.
        name: ``load``, ``batch 4``, ...
        status: ``running``; ``passed``; ``failed`` (it said why); ``crashed`` (the process ended by itself);
            ``killed`` (by SIGKILL from outside, usually for lack of memory); ``timed out`` (the stage hung);
            ``stopped`` (by kunport, because another process had failed).
        seconds: how long it took, None while it runs.
        detail: one line: what came out, or what went wrong.
    """

    process: str
    name: str
    status: str
    seconds: float | None = None
    detail: str = ""


@dataclass(slots=True)
class Mismatch:
    """The first greedy token of a request that differs where the reference is sure of its own."""

    request: int
    step: int
    expected: int
    got: int | None
    gap: float
    """How much less likely the reference finds the other token (nats)."""


@dataclass(slots=True)
class Worst:
    """The log-probability that is furthest off: of ``token`` at ``position``, counted in the request's sequence."""

    request: int
    position: int
    token: int
    expected: float | None
    got: float | None


@dataclass(slots=True)
class Memory:
    """What one batch takes; see `kunport.validation.engine.memory` for how it is measured.

    Attributes:
        live_bytes: the peak of what torch held at once of the memory it took after the batch began.
        resident_bytes: peak resident set of the whole engine process, None where the system does not tell.
    """

    live_bytes: int
    resident_bytes: int | None


@dataclass(slots=True)
class Batch:
    """All requests of one batch size against the reference.

    Attributes:
        size: number of requests that ran together.
        compared: number of log-probabilities compared.
        not_finite: how many of them were NaN or infinite on one side only.
        max_error, mean_error: absolute difference (nats) over the finite ones.
        prompt_error, decode_error: the maximum over prompt positions and over generated ones.
        worst: where the maximum is.
        error_by_position: the maximum over requests, at each position of the sequence; None where none was compared.
        greedy_equal, greedy_total: generated tokens equal to the reference's, and how many had to be.
        ties: requests that left the reference's path where the reference was undecided.
        mismatches: requests that left it elsewhere.
        repeat_differs: requests whose second run, without log-probabilities, left the reference's path elsewhere.
        seconds: of the run without log-probabilities.
        tokens_per_second: generated tokens of that run.
    """

    size: int
    compared: int
    not_finite: int
    max_error: float
    mean_error: float
    prompt_error: float
    decode_error: float
    worst: Worst | None
    error_by_position: list[float | None]
    greedy_equal: int
    greedy_total: int
    ties: int
    mismatches: list[Mismatch]
    repeat_differs: list[int]
    memory: Memory
    seconds: float
    tokens_per_second: float


@dataclass(slots=True)
class RanClass:
    """The class of the model that the engine really ran, asked of the live object.

    ``is_adapter`` says whether it is the adapter's; None where the engine's own choice was validated.
    """

    module: str
    name: str
    file: str
    is_adapter: bool | None = None


@dataclass(slots=True)
class GraphCheck:
    """The model graph, executed as it is, against the model: logits of ``positions`` prompt positions."""

    positions: int
    max_absolute: float
    max_relative: float


@dataclass(slots=True)
class Fault:
    """The first module whose inputs are right and whose output is not.

    Attributes:
        module: its path in the adapter; "" is the whole model, outside of its modules.
        kind: its class.
        owner: the class whose code calls it.
        said: what was seen, in words.
        reference_line, adapter_line: ``file:line`` in the model and in the adapter, "" where unknown.
        ratio: its error over the reference's own.
        relative: its error over the right value's norm.
        request, position: where it is largest.
    """

    module: str
    kind: str
    owner: str
    said: str
    reference_line: str
    adapter_line: str
    ratio: float
    relative: float
    request: int
    position: int


@dataclass(slots=True)
class Modules:
    """The adapter's modules and logits against the reference on the same tokens, in three precisions.

    Attributes:
        points: number of places compared.
        ratio: of the logits' error to that of the reference in the same precision, both from the truth.
        allowed: the limit of that ratio.
        max_error: largest error of a log-probability (nats); ``reference_error`` is the reference's own.
        divergence: mean Kullback-Leibler divergence of the engine's distributions from the true ones (nats).
        agreement: the share of the five most likely tokens that are the true ones.
        cosine: of the log-probabilities as one vector; ``ulp``: their largest error in units in the last place.
        fault: the first module at fault, None where all are right.
        disturbed: whether the engine answered something else while it was recorded.
    """

    points: int
    ratio: float
    allowed: float
    max_error: float
    reference_error: float
    divergence: float
    agreement: float
    cosine: float
    ulp: float
    fault: Fault | None
    disturbed: bool = False


@dataclass(slots=True)
class Engine:
    """What the engine was: the class that ran, bytes of KV cache, tokens of a page and of the longest sequence."""

    ran: RanClass
    kv_cache_bytes: int
    page_size: int
    context: int


@dataclass(slots=True)
class Report:
    """The evidence of one validation.

    Attributes:
        adapter: the adapter's folder; None where vLLM's own choice of class was validated.
        checkpoint: the checkpoint's folder.
        architecture, model_type: the checkpoint's.
        dtype: what the engine computed in; the reference of ``batches`` is always float32.
        prompt_kind: what the prompts are: ``text`` (cut out of a page by the checkpoint's tokenizer), ``random`` (ids)
            or ``given`` (by the caller).
        seed, prompt_lengths, tokens: what was drawn by, the prompts' lengths, and by how much each was continued.
        top: how many log-probabilities were compared at a position, besides the prompt's own; None for all.
        parameters: number of the model's weights, tied ones counted once.
        modules: what was found module by module; None where that was not asked: float32 that is right.
        reasons: why it did not pass; empty where it did.
        notes: what the verdict does not cover.
        versions, digests, hardware: what it holds for.
        logs: the last lines that a process that went wrong had printed.
    """

    adapter: str | None
    checkpoint: str
    architecture: str
    model_type: str
    dtype: str
    seed: int
    prompt_kind: str
    prompt_lengths: list[int]
    tokens: int
    limits: Limits
    top: int | None = None
    parameters: int | None = None
    stages: list[Stage] = field(default_factory=list)
    engine: Engine | None = None
    batches: list[Batch] = field(default_factory=list)
    graph: GraphCheck | None = None
    modules: Modules | None = None
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, str] = field(default_factory=dict)
    logs: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.reasons

    @property
    def verdict(self) -> str:
        return "pass" if self.passed else "fail"

    @property
    def max_error(self) -> float | None:
        """Over all batches; None where nothing was compared."""
        return max((batch.max_error for batch in self.batches), default=None)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, verdict included."""
        return {"verdict": self.verdict, **asdict(self)}
