"""``python -m kunport.validation.modules.engine``: runs the engine once more, and records its modules.

The job is that of `kunport.validation.engine`, and ``keep``, how many of the requests are recorded; the recording is
``OUTPUT/modules.pt``. Its requests run together, as many as the largest batch.
"""

from __future__ import annotations

from pathlib import Path

from kunport.validation.processes.child import Channel

RECORDING = "modules.pt"


def main() -> None:
    channel = Channel()
    job = channel.receive()
    with channel.stage("import"):
        from kunport.validation.engine import start
        from kunport.validation.engine.run import plain
        from kunport.validation.modules.recorder import recorded
    with channel.stage("load"):
        llm = start.engine(job)
        runner = llm.collective_rpc(lambda worker: worker.model_runner)[0]
    with channel.stage("record modules") as facts:
        prompts = job["prompts"][: max(job["batch_sizes"])]
        without, _ = plain(llm, prompts, job["tokens"])
        with recorded(runner, job["keep"]) as recording:
            tokens, _ = plain(llm, prompts, job["tokens"])
        recording.save(Path(job["output"]) / RECORDING)
        # Where they differ, what was recorded is not what was judged.
        facts["disturbed"] = tokens != without
        facts["detail"] = f"{len(recording.calls)} modules, {len(recording.request)} tokens"
    channel.done()


if __name__ == "__main__":
    main()
