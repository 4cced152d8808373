"""``python -m kunport.validation.throughput``: one side of the comparison.

The first line in is the job of `kunport.validation.engine`; each further line is a number and asks for the turn of that
number, or null and asks for the end.
"""

from __future__ import annotations

import time
from dataclasses import asdict

from kunport.validation.processes.child import Channel


def main() -> None:
    channel = Channel()
    job = channel.receive()
    with channel.stage("import"):
        from kunport_model_adapters.probe import ran_classes

        from kunport.validation.engine import start
        from kunport.validation.engine.run import plain
    with channel.stage("load") as facts:
        llm = start.engine(job)
        facts["ran"] = asdict(ran_classes(llm)[0])
        plain(llm, job["prompts"], job["tokens"])  # the first run also allocates and caches
    while (turn := channel.receive()) is not None:
        with channel.stage(f"turn {turn}") as facts:
            begin = time.process_time()
            _, facts["seconds"] = plain(llm, job["prompts"], job["tokens"])
            facts["cpu_seconds"] = time.process_time() - begin
    channel.done()


if __name__ == "__main__":
    main()
