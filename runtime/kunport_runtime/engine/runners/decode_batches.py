"""A short way through vLLM's model runner for a batch that decodes the requests of the batch before.

vLLM's first runner (0.32) goes over the batch request by request, in Python, some six times a step. In a batch of which
no request came, went or changed places, and each has one token, most of that is arithmetic on whole arrays. Any other
batch goes vLLM's way, as if this were not here; nothing has been changed by then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import vllm.envs as envs


class DecodeBatches:
    """Mixed in before vLLM's (first) model runner."""

    _laid_out = 0
    """Of how many requests, one token each, the last step's inputs are on the device; 0 where it was another batch."""
    _last_tokens: torch.Tensor
    """Where each request's last token was in that batch."""
    _more_blocks = False
    """Whether a request of this step has new blocks."""
    _names: list[str] | None = None
    """The requests of the last step in the scheduler's order, where that went this way; else None."""
    _rows: np.ndarray
    """Where they are in the batch."""
    _states: list[Any]
    """What the runner knows of each."""
    _views: tuple[torch.Tensor, ...] = ()
    """The parts of the device's inputs that a batch of `_laid_out` requests has; empty where not made yet."""

    def _update_states(self: Any, scheduler_output: Any) -> Any:
        if self._same_batch(scheduler_output) and self._advance(scheduler_output.scheduled_cached_reqs):
            self._may_reorder_batch(scheduler_output)
            self.input_batch.refresh_metadata()
            return None
        self._laid_out, self._names = 0, None
        return super()._update_states(scheduler_output)  # type: ignore[misc]

    def _same_batch(self: Any, scheduler_output: Any) -> bool:
        """Whether a step is one token of each request of the batch, and has nothing else to be done before it."""
        cached = scheduler_output.scheduled_cached_reqs
        return (
            not scheduler_output.scheduled_new_reqs
            and not cached.resumed_req_ids
            and not scheduler_output.finished_req_ids
            and not scheduler_output.scheduled_spec_decode_tokens
            and not scheduler_output.new_block_ids_to_zero
            and not scheduler_output.kv_cache_block_copies
            and not scheduler_output.free_encoder_mm_hashes
            and not scheduler_output.scheduled_encoder_inputs
            and scheduler_output.ec_manager_metadata is None
            and not cached.new_token_ids
            and self.speculative_config is None
            and scheduler_output.total_num_scheduled_tokens == len(cached.req_ids) == self.input_batch.num_reqs
        )

    def _advance(self: Any, cached: Any) -> bool:
        """Note how far each request is, and its new blocks; False, and nothing noted, where a request is another."""
        batch = self.input_batch
        if self._names != cached.req_ids:
            self._names = None
            rows = [batch.req_id_to_index.get(name) for name in cached.req_ids]
            states = [self.requests[name] for name in cached.req_ids if name in self.requests]
            if None in rows or len(states) != len(rows) or any(state.prev_num_draft_len for state in states):
                return False
            self._names, self._rows, self._states = cached.req_ids, np.array(rows), states
        for state, known in zip(self._states, cached.num_output_tokens, strict=True):
            if known < len(state.output_token_ids):
                return False
        batch.num_computed_tokens_cpu[self._rows] = cached.num_computed_tokens
        for state, computed in zip(self._states, cached.num_computed_tokens, strict=True):
            state.num_computed_tokens = computed
        self._more_blocks = any(blocks is not None for blocks in cached.new_block_ids)
        if self._more_blocks:
            for row, state, blocks in zip(self._rows.tolist(), self._states, cached.new_block_ids, strict=True):
                if blocks is not None:
                    for held, more in zip(state.block_ids, blocks, strict=True):
                        held.extend(more)
                    batch.block_table.append_row(blocks, row)
        return True

    def _prepare_inputs(self: Any, scheduler_output: Any, num_scheduled_tokens: Any) -> Any:
        batch, count = self.input_batch, self.input_batch.num_reqs
        if self._laid_out == count and self._tokens_on_device(count):
            if self._more_blocks:
                batch.block_table.commit_block_table(count)
            self._move_on(count)
            return self._last_tokens, None, 1
        result = super()._prepare_inputs(scheduler_output, num_scheduled_tokens)  # type: ignore[misc]
        single = scheduler_output.total_num_scheduled_tokens == count and not self.discard_request_mask.np[:count].any()
        plain = not (self.uses_mrope or self.enable_prompt_embeds or self.lora_config or self.speculative_config)
        plain = plain and self.parallel_config.data_parallel_size == 1 and self.num_accepted_tokens_event is None
        self._laid_out, self._views = count if single and plain else 0, ()
        self._last_tokens = result[0]
        return result

    def _tokens_on_device(self: Any, count: int) -> bool:
        """Whether the step before left a token for each request of the batch, in the order of the batch."""
        batch = self.input_batch
        sampled = batch.prev_sampled_token_ids
        return sampled is not None and sampled.shape[0] == count and batch.prev_req_id_to_index == batch.req_id_to_index

    def _move_on(self: Any, count: int) -> None:
        """Bring the device's inputs one token further, where all else is as the step before left it."""
        batch = self.input_batch
        if not self._views:
            self._views = (
                batch.num_computed_tokens_cpu_tensor[:count], self.optimistic_seq_lens_cpu[:count],
                self.positions[:count], self.num_computed_tokens[:count], self.seq_lens[:count],
                self.query_start_loc.gpu[: count + 1], self.input_ids.gpu[:count],
            )  # fmt: skip
        computed, lengths, positions, on_device, lengths_on_device, starts, ids = self._views
        torch.add(computed, 1, out=lengths)
        for each in (positions, on_device, lengths_on_device):
            each.add_(1)
        batch.block_table.compute_slot_mapping(count, starts, positions)
        ids.copy_(batch.prev_sampled_token_ids[:, 0], non_blocking=True)

    def _prepare_input_ids(
        self: Any, scheduler_output: Any, num_reqs: int, total_num_scheduled_tokens: int, cu_num_tokens: Any
    ) -> None:
        sampled = self.input_batch.prev_sampled_token_ids
        if (
            sampled is not None
            and total_num_scheduled_tokens == num_reqs <= sampled.shape[0]
            and not scheduler_output.scheduled_spec_decode_tokens
            and not self.enable_prompt_embeds
            and self._pp_recv_work is None
            and np.array_equal(self.prev_positions.np[:num_reqs], self.arange_np[:num_reqs])
        ):
            self.input_ids.gpu[:num_reqs].copy_(sampled[:num_reqs, 0], non_blocking=True)
            return
        super()._prepare_input_ids(  # type: ignore[misc]
            scheduler_output, num_reqs, total_num_scheduled_tokens, cu_num_tokens
        )

    def _bookkeeping_sync(
        self: Any,
        scheduler_output: Any,
        sampler_output: Any,
        logits: Any,
        hidden_states: Any,
        num_scheduled_tokens: int,
    ) -> Any:
        batch, sampled = self.input_batch, sampler_output.sampled_token_ids
        count = batch.num_reqs
        if (
            not self.use_async_scheduling
            or envs.VLLM_COMPUTE_NANS_IN_LOGITS
            or self.num_prompt_logprobs
            or batch.prev_sampled_token_ids is not None
            or tuple(sampled.shape) != (count, 1)
            or self.discard_request_mask.np[:count].any()
        ):
            return super()._bookkeeping_sync(  # type: ignore[misc]
                scheduler_output, sampler_output, logits, hidden_states, num_scheduled_tokens
            )
        # The tokens stay on the device: the next step reads them there, and a mark keeps their place here.
        batch.prev_sampled_token_ids = sampled
        batch.prev_req_id_to_index = batch.req_id_to_index.copy()
        rows, ends = self.arange_np[:count], batch.num_tokens_no_spec[:count]
        batch.token_ids_cpu[rows, ends] = -1
        batch.is_token_ids[rows, ends] = True
        ends += 1
        for name in batch.req_ids:
            self.requests[name].output_token_ids.append(-1)
        return {}, None, None, [], {}, batch.req_ids.copy(), batch.req_id_to_index.copy(), []
