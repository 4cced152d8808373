"""A short way through vLLM's scheduler for steps in which every running request decodes one token.

vLLM's scheduler (0.32) asks of each request at each step all that can be asked: encoders, speculation, blocks, prefixes
to cache, stops. For 256 requests that is longer than the device takes for the step. While a step is plain, what it is
made of follows from little: blocks are wanted only where a page is full, and prefixes can only be cached there. While
the requests are the same as a step before (`engine.steady`) not even that is asked of each. What is not plain in every
respect goes vLLM's way, as if this were not here; nothing has been changed by then.
"""

from __future__ import annotations

import math
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.output import CachedRequestData, SchedulerOutput
from vllm.v1.core.sched.utils import check_stop
from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from kunport_runtime.engine.steady import SteadyBatch


class DecodeSteps:
    """Mixed in before a scheduler of vLLM's."""

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        managers = self.kv_cache_manager.coordinator.single_type_managers
        self._groups = len(managers)
        # Every page of every group, and every hash, begins at a multiple of it.
        self._page = math.gcd(self.hash_block_size, *(manager.block_size for manager in managers))
        # How many tokens of a request may be on their way when the next one is scheduled.
        self._ahead = 1 if isinstance(self, AsyncScheduler) else 0
        self._plain_engine = _is_plain_engine(self)
        # Of caches that are never given back in parts, nor shared: a new block is all that a step can want of them.
        simple = not self.kv_cache_manager.enable_caching and all(
            type(each) is FullAttentionManager for each in managers
        )
        self._simple_managers = managers if simple else ()
        self._steady: SteadyBatch | None = None

    def schedule(self: Any, throttle_prefills: bool = False) -> SchedulerOutput:
        output: SchedulerOutput | None = None
        if self._plain_engine and not throttle_prefills:
            output = self._schedule_decodes()
        if output is None:
            self._steady = None
            output = super().schedule(throttle_prefills)  # type: ignore[misc]
        return output

    def update_from_output(
        self: Any, scheduler_output: SchedulerOutput, output: ModelRunnerOutput
    ) -> dict[int, EngineCoreOutputs]:
        outputs: dict[int, EngineCoreOutputs] | None = None
        if self._plain_engine and _is_plain_output(scheduler_output, output):
            outputs = self._take_tokens(scheduler_output, output)
        if outputs is None:
            outputs = super().update_from_output(scheduler_output, output)  # type: ignore[misc]
        return outputs

    def _schedule_decodes(self: Any) -> SchedulerOutput | None:
        """One token of every running request; None where the step is not plain."""
        full = len(self.running) + self.num_waiting_for_streaming_input >= self.max_num_active_reqs
        if (
            self._pause_state != PauseState.UNPAUSED
            or self._inflight_prefills
            or self.reset_preempted_req_ids
            or len(self.running) > self.max_num_scheduled_tokens
            or ((self.waiting or self.kv_holding_waiting) and not full)
        ):
            return None
        batch: SteadyBatch | None = self._steady
        if batch is not None and batch.goes_on(self.running):
            wanting = batch.next_step()
        else:
            decoding = self._decoding()
            if not decoding:
                return None
            batch = SteadyBatch.of(decoding, self._page, self.max_model_len)
            wanting = batch.filling.get(0, [])
        if len(wanting) * self._groups > self.kv_cache_manager.block_pool.get_num_free_blocks():
            return None
        self._steady = batch if len(batch.requests) == len(self.running) else None
        self.current_step += 1
        self.kv_cache_manager.new_step_starts()
        blocks = {}
        for request in wanting:
            blocks[request.request_id] = self._new_page(request)
        return self._step_of(batch, blocks)

    def _new_page(self: Any, request: Request) -> tuple[list[int], ...] | None:
        """The blocks of each group that a request whose pages are full is given; None where no group wants one."""
        if not self._simple_managers:
            given = self.kv_cache_manager.allocate_slots(request, 1)
            assert given is not None, "there were blocks enough"
            found: tuple[list[int], ...] | None = given.get_block_ids(allow_none=True)
            return found
        name, tokens = request.request_id, request.num_computed_tokens + 1
        ids = tuple(
            [block.block_id for block in manager.allocate_new_blocks(name, tokens, tokens)]
            for manager in self._simple_managers
        )
        return ids if any(ids) else None

    def _decoding(self: Any) -> list[Request] | None:
        """The running requests that a token is to be computed of; None where one of them is not plain."""
        decoding: list[Request] = []
        before, longest = self.prev_step_scheduled_req_ids, self.max_model_len
        for request in self.running:
            computed, coming = request.num_computed_tokens, request.num_output_placeholders
            if coming and computed + 2 - coming >= request.num_prompt_tokens + request.max_tokens:
                continue  # the token that is on its way is its last
            if (
                request.num_tokens + coming != computed + 1
                or computed + 1 >= longest
                or request.is_prefill_chunk
                or request.request_id not in before
                or request.structured_output_request is not None
                or request.spec_token_ids
                or request.mm_features
            ):
                return None
            decoding.append(request)
        return decoding

    def _step_of(self: Any, batch: SteadyBatch, blocks: dict[str, Any]) -> SchedulerOutput:
        """The step of these requests, which count as computed from here on, as vLLM has it."""
        names = batch.names
        cached = CachedRequestData(
            req_ids=names,
            resumed_req_ids=set(),
            new_token_ids=[],
            all_token_ids={},
            new_block_ids=[blocks.get(name) for name in names] if blocks else [None] * len(names),
            num_computed_tokens=batch.computed,
            num_output_tokens=batch.outputs,
        )
        for request in batch.requests:
            request.num_computed_tokens += 1
            request.num_in_flight_tokens += 1
            request.num_output_placeholders += self._ahead
        if not batch.steps:
            self.prev_step_scheduled_req_ids.clear()
            self.prev_step_scheduled_req_ids.update(names)
        output = SchedulerOutput(
            scheduled_new_reqs=[],
            scheduled_cached_reqs=cached,
            num_scheduled_tokens=dict.fromkeys(names, 1),
            total_num_scheduled_tokens=len(names),
            scheduled_spec_decode_tokens={},
            scheduled_encoder_inputs={},
            preempted_req_ids=self.reset_preempted_req_ids,
            finished_req_ids=self.finished_req_ids,
            free_encoder_mm_hashes=self.encoder_cache_manager.get_freed_mm_hashes(),
            new_block_ids_to_zero=self._get_new_block_ids_to_zero(),
            num_spec_tokens_to_schedule=0,
            ec_manager_metadata=self.encoder_cache_manager.get_manager_metadata(),
        )
        self.finished_req_ids: set[str] = set()  # the output has the other one
        self.reset_preempted_req_ids: set[str] = set()
        return output

    def _take_tokens(
        self: Any, scheduler_output: SchedulerOutput, output: ModelRunnerOutput
    ) -> dict[int, EngineCoreOutputs] | None:
        """Give each request its token; None where one of them is not plain."""
        if self.grammar_compile_error_reqs or self.encoder_cache_mismatch_reqs:
            return None
        taking: list[tuple[Request, list[int]]] = []
        gone: list[Request] = []
        rows, sampled, steady = output.req_id_to_index, output.sampled_token_ids, self._steady
        names = scheduler_output.scheduled_cached_reqs.req_ids
        if steady is not None and steady.is_answered(names, self.running) and set(map(len, sampled)) == {1}:
            tokens_of = sampled if output.req_ids == names else [sampled[rows[name]] for name in names]
            taking = list(zip(steady.requests, tokens_of, strict=True))
        else:
            for name in names:
                request = self.requests.get(name)
                if request is None:
                    continue  # it ended, or was cancelled, while this step ran
                tokens = sampled[rows[name]]
                if request.status == RequestStatus.RUNNING and len(tokens) == 1 and _is_plain_request(request):
                    taking.append((request, tokens))
                elif request.is_finished():
                    gone.append(request)
                else:
                    return None
            if steady is not None and names is steady.names:
                steady.plain = len(taking) == len(steady.requests)
        for request in gone:
            request.num_in_flight_tokens -= 1
        answers, stopped = self._give_tokens(taking)
        if stopped:
            self.running = [request for request in self.running if request not in stopped]
        outputs = {client: EngineCoreOutputs(outputs=each) for client, each in answers.items()}
        stats = self.make_stats(cudagraph_stats=output.cudagraph_stats)
        if stats is not None:
            if not outputs:
                outputs[0] = EngineCoreOutputs()
            next(iter(outputs.values())).scheduler_stats = stats  # one client is enough
        return outputs

    def _give_tokens(
        self: Any, taking: list[tuple[Request, list[int]]]
    ) -> tuple[dict[int, list[EngineCoreOutput]], set[Request]]:
        """The answers for each client, and the requests that have ended with them."""
        answers: dict[int, list[EngineCoreOutput]] = {}
        stopped = set()
        ahead, longest = self._ahead, self.max_model_len
        caching, page = self.kv_cache_manager.enable_caching, self._page
        for request, tokens in taking:
            request.num_in_flight_tokens -= 1
            request.num_output_placeholders -= ahead
            request.append_output_token_ids(tokens[0])
            ended = check_stop(request, longest)
            if caching:
                computed = request.num_computed_tokens - request.num_output_placeholders
                if computed % page == 0:
                    self.kv_cache_manager.cache_blocks(request, computed)
            answer = EngineCoreOutput(request.request_id, tokens)
            if ended:
                answer.finish_reason, answer.stop_reason = request.get_finished_reason(), request.stop_reason
                self._free_request(request)
                stopped.add(request)
            if request.trace_headers is not None:
                answer.trace_headers = request.trace_headers
            answers.setdefault(request.client_index, []).append(answer)
        return answers, stopped


def _is_plain_engine(scheduler: Any) -> bool:
    """Whether nothing of what this module leaves out can happen in this engine."""
    return not (
        scheduler.connector is not None
        or scheduler.ec_connector is not None
        or scheduler.aux_output_connector is not None
        or scheduler.perf_metrics is not None
        or scheduler.finished_req_ids_dict is not None
        or scheduler.lora_config
        or scheduler.enable_kv_cache_events
        or scheduler.num_spec_tokens
        or scheduler.num_lookahead_tokens
        or scheduler.use_v2_model_runner
        or scheduler.use_pp
        or scheduler.has_mamba_layers
        or scheduler.prefix_replay_group_ids
        or scheduler.is_encoder_decoder
        or scheduler.is_mm_encoder_only
        or scheduler.return_sampling_mask
        or scheduler.num_sampled_tokens_per_step != 1
        or scheduler.dcp_world_size * scheduler.pcp_world_size != 1
    )


def _is_plain_output(scheduler_output: SchedulerOutput, output: ModelRunnerOutput) -> bool:
    """Whether a step was one token of each request and its answer is tokens, and nothing else."""
    return (
        not scheduler_output.scheduled_new_reqs
        and scheduler_output.total_num_scheduled_tokens == len(scheduler_output.num_scheduled_tokens)
        and bool(output.sampled_token_ids)
        and output.logprobs is None
        and not output.prompt_logprobs_dict
        and not output.prompt_token_id_logprobs_dict
        and not output.pooler_output
        and not output.num_nans_in_logits
        and output.kv_connector_output is None
        and output.ec_connector_output is None
    )


def _is_plain_request(request: Request) -> bool:
    """Whether a token is all that is to be noted of a running request."""
    return (
        request.prefill_stats is None
        and request.structured_output_request is None
        and not request.num_stale_output_tokens
        and not request.resumable
        and not request.events
        and not request.mm_features
    )
