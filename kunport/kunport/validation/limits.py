"""The limits a verdict rests on, and why they are what they are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What an adapter must meet.

    Attributes:
        log_probability: largest absolute difference of a log-probability (nats), float32 against float32. A correct
            adapter of a small model lands between 1e-6 and 4e-5, the order of float32 rounding through its layers;
            the smallest planted bug (an epsilon of 1e-5 for 1e-6) lands above.
        tie: a greedy token may differ from the reference's where the reference itself gives both a log-probability
            within this distance (nats): rounding alone then decides. Any other difference counts.
        graph: largest difference of the executed model graph's logits from the model's, relative to the largest logit.
        stage_seconds: how long a process may give no sign of life before it counts as hung.
    """

    log_probability: float = 1e-4
    tie: float = 1e-3
    graph: float = 1e-6
    stage_seconds: float = 600.0
