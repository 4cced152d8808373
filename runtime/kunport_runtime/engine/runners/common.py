"""What kunport adds to vLLM's model runner, whatever the device."""

from __future__ import annotations

from typing import Any

from kunport_runtime.engine.randomness import RequestGenerator
from kunport_runtime.engine.sampling import make_sampler


class RunnerAdditions:
    """Mixed in before vLLM's (first) model runner."""

    def __init__(self: Any, vllm_config: Any, device: Any) -> None:
        super().__init__(vllm_config, device)  # type: ignore[call-arg]
        self.sampler = make_sampler(self.sampler, vllm_config)

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
