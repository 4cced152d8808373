"""``python -m kunport.validation.engine``: run the engine and write down what it answers.

The job: ``checkpoint``, ``trust_remote_code`` (whether to run its code), ``prompts`` (lists of token ids), ``tokens``
(to generate), ``batch_sizes``, ``dtype``, ``context``, ``page`` (tokens), ``kv_cache_bytes``, ``top``
(log-probabilities a position, -1 for all), ``seed`` and ``output`` (folder for `Observed`). One engine serves all batch
sizes: a batch of n runs the first n prompts at once.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

from kunport.validation.processes.child import Channel


def main() -> None:
    channel = Channel()
    job = channel.receive()
    output, prompts = Path(job["output"]), job["prompts"]
    with channel.stage("import") as facts:
        import vllm
        from kunport_model_adapters.probe import ran_classes

        from kunport.validation.engine import memory, start
        from kunport.validation.engine.run import observe, plain

        facts["versions"] = {"vllm": vllm.__version__}
    with channel.stage("load") as facts:
        llm = start.engine(job)
        facts["settings"] = start.settings(llm)
        facts["device"] = start.device()
        facts["ran"] = asdict(ran_classes(llm)[0])
        facts["detail"] = f"{facts['ran']['name']} of {facts['ran']['module']}"
    with channel.stage("warm-up"):
        plain(llm, prompts, job["tokens"])
    repeated = {}
    for size in job["batch_sizes"]:
        with channel.stage(f"memory and speed, batch {size}") as facts:
            memory.reset_peak()
            repeated[size], seconds = plain(llm, prompts[:size], job["tokens"])
            resident = memory.peak_resident_bytes()
            live = memory.peak_live_bytes(partial(plain, llm, prompts[:size], job["tokens"]))
            facts |= {"seconds": seconds, "resident_bytes": resident, "live_bytes": live}
            facts["detail"] = f"{size * job['tokens'] / seconds:.0f} tokens/s"
    for size in job["batch_sizes"]:
        with channel.stage(f"log-probabilities, batch {size}"):
            answers = observe(llm, prompts[:size], job["tokens"], job["top"], repeated[size])
            for request, answer in enumerate(answers):
                answer.save(output, size, request)
    channel.done()


if __name__ == "__main__":
    main()
