"""What kunport adds to vLLM's model runner, whatever the device."""

from __future__ import annotations

from typing import Any

import torch

from kunport_runtime.engine.exhaustion import failures_known, without_tokens
from kunport_runtime.engine.randomness import RequestGenerator
from kunport_runtime.engine.sampling import make_sampler
from kunport_runtime.memory.exhaustion import is_out_of_memory


class RunnerAdditions:
    """Mixed in before vLLM's (first) model runner."""

    def __init__(self: Any, vllm_config: Any, device: Any) -> None:
        super().__init__(vllm_config, device)  # type: ignore[call-arg]
        self.sampler = make_sampler(self.sampler, vllm_config)
        self._batch: Any = None
        self._failed: str | None = None
        self._failed_at = -1  # as many failures the scheduler knew of when the last one happened

    def execute_model(self: Any, scheduler_output: Any, intermediate_tensors: Any = None) -> Any:
        """vLLM's; a batch for which memory is wanting is answered by `sample_tokens`, or here where none follows."""
        self._batch = scheduler_output
        if scheduler_output.num_scheduled_tokens and failures_known(scheduler_output) == self._failed_at:
            # Scheduled before the failure was known: it builds on tokens that there are not.
            with torch.inference_mode():
                self._update_states(scheduler_output)
            return self._answer_failure("")
        try:
            return super().execute_model(scheduler_output, intermediate_tensors)  # type: ignore[misc]
        except Exception as error:
            return self._answer_failure(self._reason(error))

    def sample_tokens(self: Any, grammar_output: Any) -> Any:
        if self._failed is not None:
            reason, self._failed = self._failed, None
            return without_tokens(self._batch, reason)
        try:
            return super().sample_tokens(grammar_output)  # type: ignore[misc]
        except Exception as error:
            return without_tokens(self._batch, self._reason(error))

    def _reason(self: Any, error: Exception) -> str:
        """What an allocator said; any other error is raised again.

        So is one among several ranks, where the others wait for this one in the middle of the batch, and one under a
        scheduler that would not understand the answer.
        """
        known = failures_known(self._batch)
        if not is_out_of_memory(error) or self.parallel_config.world_size > 1 or known is None:
            raise error
        self._failed_at = known
        return str(error).partition("\n")[0] or type(error).__name__

    def _answer_failure(self: Any, reason: str) -> Any:
        self._laid_out = 0  # the device's inputs are not those of a step that was noted
        if self.is_pooling_model:
            return without_tokens(self._batch, reason)
        self._failed = reason
        return None

    def _update_states(self: Any, scheduler_output: Any) -> Any:
        """Give every request that has a seed a generator that is the same on all devices.

        vLLM makes a generator on the device, where the vendor's ignores its seed, and takes the draw of a row that it
        discards back through the generator's offset, which one on the CPU does not have: a chunked prefill of a
        request with a seed would stop the engine (vLLM 0.32).
        """
        result = super()._update_states(scheduler_output)  # type: ignore[misc]
        generators = self.input_batch.generators
        for row, generator in generators.items():
            if not isinstance(generator, RequestGenerator):
                generators[row] = RequestGenerator(generator.initial_seed())
                self.requests[self.input_batch.req_ids[row]].generator = generators[row]
        return result
