"""A batch that decodes the same requests step after step: what was asked of each once needs not be asked again.

While the running requests are the same, only three things can happen to one of them: it fills a page, it comes to its
last token, or it is taken out. When the first two happen follows from lengths; the third changes the list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False, slots=True)
class SteadyBatch:
    """Requests that decode a token each, step after step.

    Attributes:
        requests: in the scheduler's order; the batch goes on while it runs these and no others.
        names: theirs. Every step of this batch has this very list, by which its answer is known.
        computed: tokens of each that were computed before the step that was scheduled last.
        outputs: tokens that each had been given by then, those on their way included.
        left: how many steps may follow before one of them is at its end.
        filling: by how many tokens the last page of a request holds, 0 where it is full, the requests that began so.
        page: tokens of a page.
        steps: that followed the first.
        plain: whether an answer has found nothing in the requests but tokens to be taken.
    """

    requests: list[Any]
    names: list[str]
    computed: list[int]
    outputs: list[int]
    left: int
    filling: dict[int, list[Any]]
    page: int
    steps: int = 0
    plain: bool = False

    @classmethod
    def of(cls, requests: list[Any], page: int, longest: int) -> SteadyBatch:
        """As the requests are when their first step is scheduled; `longest`: tokens that a request may have."""
        filling: dict[int, list[Any]] = {}
        for request in requests:
            filling.setdefault(request.num_computed_tokens % page, []).append(request)
        ends = (min(each.num_prompt_tokens + each.max_tokens, longest) - each.num_computed_tokens for each in requests)
        return cls(
            requests=requests,
            names=[each.request_id for each in requests],
            computed=[each.num_computed_tokens for each in requests],
            outputs=[each.num_output_tokens + each.num_output_placeholders for each in requests],
            left=min(ends) - 2,  # the token that follows the last one computed is the request's last
            filling=filling,
            page=page,
        )

    def goes_on(self, running: list[Any]) -> bool:
        """Whether the next step of a scheduler that runs these requests is one more of this batch."""
        return self.left > 0 and self.requests == running

    def next_step(self) -> list[Any]:
        """Go on by a step, and return the requests that want a new page for it."""
        self.left -= 1
        self.steps += 1
        self.computed = [each + 1 for each in self.computed]
        self.outputs = [each + 1 for each in self.outputs]
        return self.filling.get(-self.steps % self.page, [])

    def is_answered(self, names: list[str], running: list[Any]) -> bool:
        """Whether an answer to a step with these names is tokens for exactly the requests that run, and no more."""
        return self.plain and names is self.names and self.requests == running
