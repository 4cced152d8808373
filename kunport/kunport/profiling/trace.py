"""A profile as a trace in the format that Perfetto and Chrome's tracing read: a track a process, a slice a call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kunport_runtime.operators.profile_files import Profile


def trace(profiles: Sequence[Profile]) -> str:
    """JSON with the calls that a profile has one by one; times are microseconds of the host's clock."""
    events: list[dict[str, object]] = []
    for profile in profiles:
        name = f"process {profile.process} on {profile.device}"
        events.append({"ph": "M", "name": "process_name", "pid": profile.process, "args": {"name": name}})
        for span in profile.spans:
            events.append(
                {
                    "ph": "X",
                    "name": span.operator,
                    "cat": span.provider,
                    "ts": span.begin / 1e3,
                    "dur": span.nanoseconds / 1e3,
                    "pid": profile.process,
                    "tid": 0,
                    "args": {"layer": span.layer, "provider": span.provider},
                }
            )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
