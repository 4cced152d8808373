"""``python -m kunport.validation.modules.reference``: judges recordings of one checkpoint.

The job: ``checkpoint``, ``trust_remote_code``, ``dtype`` (the engine's), ``limit`` (of log-probabilities in nats; null
where the ratio of errors decides) and ``recordings`` (name -> the recording's file and the adapter's). The facts of a
recording's stage are its `kunport.validation.report.Modules` and the ``checks`` that found something.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from kunport.validation.processes.child import Channel


def main() -> None:
    channel = Channel()
    job = channel.receive()
    with channel.stage("import"):
        import torch

        from kunport.validation.modules.judge import Judge
    with channel.stage("load"):
        judge = Judge(Path(job["checkpoint"]), getattr(torch, job["dtype"]), trust_remote_code=job["trust_remote_code"])
    for name, (file, adapter) in job["recordings"].items():
        with channel.stage(name) as facts:
            found = judge(Path(file), None if adapter is None else Path(adapter))
            limit = job["limit"]
            wrong = not found.ratio <= found.allowed if limit is None else not found.max_error <= limit
            facts["modules"] = asdict(found)
            facts["checks"] = ["log-probabilities"] * wrong + ["modules"] * (found.fault is not None)
            at = "" if found.fault is None else f", the first wrong one is {found.fault.module or 'the whole model'}"
            facts["detail"] = f"{found.points} places compared{at}"
    channel.done()


if __name__ == "__main__":
    main()
