"""A decode step of the batch before, each request taking its likeliest token: three graphs, and hardly any host.

vLLM's first runner (0.32) captures the model alone. Around it some ten kernels move the inputs on, make logits and
choose tokens, and each is launched by itself from Python: on a slow host that takes longer than the device takes for
all of it. Here they are graphs too, one before the model's and one behind it, for every batch size that has one of the
model. What the host notes of a step is the same as of any other (`decode_batches`), so that another kind can follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import vllm.envs as envs
from vllm.compilation.cuda_graph import CUDAGraphWrapper
from vllm.distributed.kv_transfer import has_kv_transfer_group
from vllm.distributed.parallel_state import graph_capture
from vllm.logger import init_logger
from vllm.v1.outputs import ModelRunnerOutput, SamplerOutput
from vllm.v1.worker.gpu_model_runner import AsyncGPUModelRunnerOutput

from kunport_runtime import operators
from kunport_runtime.engine.attention.backend import PagedAttentionBackend
from kunport_runtime.engine.sampling import OperatorSampler, greedy_options, takes_largest

logger = init_logger(f"vllm.{__name__}")


@dataclass(frozen=True, slots=True)
class StepGraphs:
    """What a step of one batch size launches, in this order.

    Attributes:
        before: takes the last tokens as inputs, and moves positions, lengths and slots on by one.
        model: the one that vLLM captured.
        behind: makes logits, and of them tokens.
        kept: what the graphs read besides.
    """

    before: torch.cuda.CUDAGraph
    model: torch.cuda.CUDAGraph
    behind: torch.cuda.CUDAGraph
    kept: dict[str, torch.Tensor]


class RepeatedSteps:
    """Mixed in before `DecodeBatches`."""

    step_graphs: dict[int, StepGraphs]
    """By batch size; a batch between two sizes takes the larger one's. Empty where no step can be repeated."""
    _tokens: torch.Tensor
    """The last tokens [largest batch size] int32, where the graphs write and read them."""
    _active: torch.Tensor
    """1 for each request of the batch, 0 behind it; int32."""
    _repeated: Any = None
    """The step that was computed, and waits for `sample_tokens`."""
    _own: torch.Tensor | None = None
    """The part of `_tokens` that the last step has left, as a column; None where another kind of step was the last."""
    _copied: torch.cuda.Event | None = None
    """When the host has the tokens of the last repeated step."""

    def __init__(self: Any, vllm_config: Any, device: Any) -> None:
        super().__init__(vllm_config, device)  # type: ignore[call-arg]
        self.step_graphs = {}

    def capture_model(self: Any) -> int:
        """vLLM's, and the graphs around those of the model; bytes of all of them."""
        taken: int = super().capture_model()  # type: ignore[misc]
        if not self._can_repeat():
            return taken
        before = torch.accelerator.get_memory_info()[0]
        with torch.inference_mode(), self._freeze_gc(), graph_capture(device=self.device):
            self._capture_steps()
        torch.accelerator.synchronize()
        more = before - torch.accelerator.get_memory_info()[0]
        logger.info("Whole decode steps are graphs for %d batch sizes, %.2f GiB.", len(self.step_graphs), more / 2**30)
        return taken + more

    def _can_repeat(self: Any) -> bool:
        """Whether nothing of what the graphs leave out can happen in this engine."""
        return (
            isinstance(self.model, CUDAGraphWrapper)
            and isinstance(self.sampler, OperatorSampler)
            and self.use_async_scheduling
            and self.parallel_config.world_size == 1
            and self.parallel_config.data_parallel_size == 1
            and not (
                self.is_pooling_model or self.uses_mrope or self.enable_prompt_embeds or self.supports_mm_inputs
                or self.lora_config or self.speculative_config or self.eplb_state or self.use_aux_hidden_state_outputs
                or self.broadcast_pp_output or self.cache_config.kv_sharing_fast_prefill
                or has_kv_transfer_group() or envs.VLLM_COMPUTE_NANS_IN_LOGITS
            )
            and all(
                issubclass(group.backend, PagedAttentionBackend) and not group.kernel_block_stride
                for groups in self.attn_groups
                for group in groups
            )
        )  # fmt: skip

    def _capture_steps(self: Any) -> None:
        entries = {
            form.num_tokens: entry
            for form, entry in self.model.concrete_cudagraph_entries.items()
            if form.uniform and not form.has_lora and isinstance(entry.output, torch.Tensor)
        }
        largest = max(entries, default=0)
        self._tokens = torch.zeros(largest, dtype=torch.int32, device=self.device)
        self._active = torch.zeros(largest, dtype=torch.int32, device=self.device)
        # Not vLLM's pool: to that the model's results are free memory, since it keeps no count of who reads them.
        pool = torch.cuda.graph_pool_handle()
        for size, entry in sorted(entries.items(), reverse=True):
            kept = greedy_options(size, self.device)
            self.step_graphs[size] = StepGraphs(
                before=_captured(lambda size=size: self._move_on_by_graph(size), pool),
                model=entry.cudagraph,
                behind=_captured(lambda hidden=entry.output, kept=kept: self._choose(hidden, kept), pool),
                kept=kept,
            )

    def _move_on_by_graph(self: Any, size: int) -> None:
        active = self._active[:size]
        for each in (self.positions, self.num_computed_tokens, self.seq_lens):
            each[:size].add_(active)
        self.input_ids.gpu[:size].copy_(self._tokens[:size])
        starts, positions = self.query_start_loc.gpu[: size + 1], self.positions[:size]
        self.input_batch.block_table.compute_slot_mapping(size, starts, positions)

    def _choose(self: Any, hidden: torch.Tensor, options: dict[str, torch.Tensor]) -> None:
        logits = self.model.compute_logits(hidden)
        self._tokens[: hidden.shape[0]].copy_(operators.sample(logits=logits, greedy=True, **options))

    @torch.inference_mode()
    def execute_model(self: Any, scheduler_output: Any, intermediate_tensors: Any = None) -> Any:
        if self.step_graphs and self._is_repeatable(scheduler_output):
            with self.synchronize_input_prep():  # waits for what was copied before the last step, not for that step
                same = self._advance(scheduler_output.scheduled_cached_reqs)
                if same and self._more_blocks:
                    self.input_batch.block_table.commit_block_table(self.input_batch.num_reqs)
            if same:
                self._repeat(self.input_batch.num_reqs)
                self._repeated = scheduler_output
                return None
        self._own = None
        return super().execute_model(scheduler_output, intermediate_tensors)  # type: ignore[misc]

    def _is_repeatable(self: Any, scheduler_output: Any) -> bool:
        """Whether a step is that of the batch before, and asks for nothing but the likeliest tokens."""
        batch = self.input_batch
        return (
            self._laid_out == batch.num_reqs > 0
            and self._same_batch(scheduler_output)
            and self._tokens_on_device(batch.num_reqs)
            and not scheduler_output.has_structured_output_requests
            and not self.num_prompt_logprobs
            and takes_largest(batch.sampling_metadata)
        )

    def _repeat(self: Any, count: int) -> None:
        batch = self.input_batch
        batch.refresh_metadata()
        if self._copied is not None:
            self._copied.wait()  # the graphs overwrite the tokens that are on their way to the host
        if self._own is None:
            self._tokens[:count].copy_(batch.prev_sampled_token_ids[:, 0])
            self._active[:count].fill_(1)
            self._active[count:].fill_(0)
            self._own = self._tokens[:count].unsqueeze(1)
        graphs = self.step_graphs[min(size for size in self.step_graphs if size >= count)]
        graphs.before.replay()
        graphs.model.replay()
        graphs.behind.replay()

    @torch.inference_mode()
    def sample_tokens(self: Any, grammar_output: Any) -> Any:
        if self._repeated is None:
            return super().sample_tokens(grammar_output)  # type: ignore[misc]
        scheduler_output, self._repeated = self._repeated, None
        batch = self.input_batch
        batch.prev_sampled_token_ids = None
        count = batch.num_reqs
        sampled = SamplerOutput(sampled_token_ids=self._own, logprobs_tensors=None)
        _, _, _, _, prompts, names, rows, _ = self._bookkeeping_sync(scheduler_output, sampled, None, None, count)
        output = ModelRunnerOutput(
            req_ids=names, req_id_to_index=rows, sampled_token_ids=[], logprobs=None, prompt_logprobs_dict=prompts
        )
        answer = AsyncGPUModelRunnerOutput(
            model_runner_output=output,
            sampled_token_ids=self._own,
            logprobs_tensors=None,
            invalid_req_indices=[],
            async_output_copy_stream=self._get_or_create_async_output_copy_stream(),
            vocab_size=batch.vocab_size,
        )
        self._copied = answer.async_copy_ready_event
        batch.set_async_sampled_token_ids(answer.sampled_token_ids_cpu, answer.async_copy_ready_event)
        return answer


def _captured(launch: Any, pool: Any) -> torch.cuda.CUDAGraph:
    """The graph of what a function launches, which is run once before: kernels are compiled, and buffers made, then."""
    launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=torch.cuda.current_stream()):
        launch()
    return graph
