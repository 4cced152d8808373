"""A batch that runs out of memory costs at most the request that needs too much, and not the server.

The worker answers with `BatchOutOfMemory` in the place of tokens. The scheduler takes back what it had begun: all
running requests are preempted and the prefix cache is emptied, since blocks of the batch count as computed from when
it is scheduled. From then on half as many requests run at once. A request that fails alone ends as failed; the others
are computed again. Each request that finishes lets twice as many run, up to the number that the engine was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm.logger import init_logger
from vllm.v1.core.sched.async_scheduler import AsyncScheduler as VllmAsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import RequestStatus

from kunport_runtime.engine.decode_steps import DecodeSteps

_MARK = "kunport_failures"
logger = init_logger(f"vllm.{__name__}")


@dataclass
class BatchOutOfMemory(ModelRunnerOutput):
    """What a worker answers for a batch that it could not compute.

    Attributes:
        reason: what the allocator said; "" for a batch that was scheduled before an earlier one was known to have
            failed, and was left out.
    """

    reason: str = ""


def without_tokens(scheduler_output: SchedulerOutput, reason: str) -> BatchOutOfMemory:
    """The answer for a batch."""
    names = list(scheduler_output.num_scheduled_tokens)
    return BatchOutOfMemory(req_ids=names, req_id_to_index={name: i for i, name in enumerate(names)}, reason=reason)


def failures_known(scheduler_output: SchedulerOutput) -> int | None:
    """How many batches a scheduler knew to have failed when it made this one; None of a scheduler not of ours."""
    return getattr(scheduler_output, _MARK, None)


class SmallerBatches:
    """Mixed in before a scheduler of vLLM's."""

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._most_requests = self.max_num_active_reqs
        self._failures = 0

    def schedule(self: Any, *arguments: Any, **options: Any) -> SchedulerOutput:
        """vLLM's, marked for `failures_known`."""
        output = super().schedule(*arguments, **options)  # type: ignore[misc]
        setattr(output, _MARK, self._failures)
        return output

    def update_from_output(
        self: Any, scheduler_output: SchedulerOutput, output: ModelRunnerOutput
    ) -> dict[int, EngineCoreOutputs]:
        failed = None
        if isinstance(output, BatchOutOfMemory) and output.reason:
            failed = self._take_back(list(scheduler_output.num_scheduled_tokens), output.reason)
        outputs: dict[int, EngineCoreOutputs] = super().update_from_output(  # type: ignore[misc]
            scheduler_output, output
        )
        if failed is not None:
            outputs.setdefault(failed.client_index, EngineCoreOutputs()).outputs.append(
                EngineCoreOutput(
                    request_id=failed.request_id,
                    new_token_ids=[],
                    finish_reason=failed.get_finished_reason(),
                    stop_reason=failed.stop_reason,
                    events=failed.take_events(),
                    trace_headers=failed.trace_headers,
                )
            )
        if self.max_num_active_reqs < self._most_requests and any(
            each.finish_reason is not None for client in outputs.values() for each in client.outputs
        ):
            self.max_num_active_reqs = min(2 * self.max_num_active_reqs, self._most_requests)
        return outputs

    def _take_back(self: Any, names: list[str], reason: str) -> Any:
        """Undo a batch, and return the request that has failed where it was alone in it."""
        self._failures += 1
        self.reset_prefix_cache(reset_running_requests=True)
        if len(names) > 1:
            self.max_num_active_reqs = max(1, len(names) // 2)
            logger.warning(
                "A batch of %d requests ran out of memory; they are computed again, at most %d at once. (%s)",
                len(names),
                self.max_num_active_reqs,
                reason,
            )
            return None
        request = self.requests.get(names[0])
        if request is None or request.is_finished():  # it was cancelled meanwhile
            return None
        request.stop_reason = (
            f"Out of memory: this request needs more than is left, even alone. Shorten it, or lower "
            f"--max-num-batched-tokens, --max-model-len or the KV cache. ({reason})"
        )
        logger.error("Request %s failed. %s", names[0], request.stop_reason)
        self.finish_requests(names, RequestStatus.FINISHED_ERROR)
        return request


class Scheduler(SmallerBatches, DecodeSteps, VllmScheduler):
    """vLLM's, for one batch at a time."""


class AsyncScheduler(SmallerBatches, DecodeSteps, VllmAsyncScheduler):
    """vLLM's that schedules a batch while another runs."""
