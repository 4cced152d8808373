"""``python -m kunport.validation.selftest.engine``: one engine, and a fork of it for every changed adapter.

The job: what `kunport.validation.engine` is told, ``variants`` (name -> a file with the adapter's source, changed or
not), ``clean`` (those that are not, with prompts of their own: they prove that the recorder changes nothing) and
``variant_seconds`` (a fork that takes longer hangs). A variant's recording is ``OUTPUT/NAME.pt``; the facts of its
stage are how it went.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from kunport.validation.processes.child import Channel, die_with_parent, one_line


def main() -> None:
    channel = Channel()
    job = channel.receive()
    with channel.stage("import"):
        from kunport.validation.engine import start
        from kunport.validation.engine.run import plain
    with channel.stage("load"):
        llm = start.engine(job)
        plain(llm, job["prompts"], 2)
    for name, source in job["variants"].items():
        with channel.stage(name) as facts:
            facts["error"] = in_fork(partial(_record, llm, job, name, source), job["variant_seconds"])
    channel.done()


def in_fork(work: Callable[[], None], seconds: float) -> str:
    """Do work in a fork of this process, within so many seconds; "" or what went wrong there, in one line."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        die_with_parent()
        os.close(reader)
        try:
            work()
            said = ""
        except BaseException as error:
            traceback.print_exc()
            said = f"{one_line(error)} {_modules_in(str(error))}".strip()
        os.write(writer, json.dumps(said).encode()[:4096])
        sys.stderr.flush()
        os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + seconds
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reader)
            return f"hangs: no end after {seconds:g} s"
        time.sleep(0.02)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    return str(json.loads(answer)) if answer else "crashes"


def _modules_in(message: str) -> str:
    """The parameter's name in an error of the loader, whichever of its lines it is in."""
    names = [
        word.strip("'\"{}[](),.:;")
        for word in message.split()
        if word.count(".") > 1 and ("layers" in word or "weight" in word)
    ]
    return f"({sorted(names)[0]})" if names else ""


def _record(llm: Any, job: dict[str, Any], name: str, source: str) -> None:
    from kunport.validation.engine.run import plain
    from kunport.validation.modules.recorder import recorded

    runner = llm.collective_rpc(lambda worker: worker.model_runner)[0]
    exchange(runner, Path(source))
    # Requests of the same lengths before: what a model wrongly keeps of them shows in the recorded ones.
    prompts = job["clean"].get(name, job["prompts"])
    plain(llm, [[prompt[0], *reversed(prompt[1:])] for prompt in prompts], job["tokens"])
    with recorded(runner) as recording:
        tokens, _ = plain(llm, prompts, job["tokens"])
    recording.save(Path(job["output"]) / f"{name}.pt")
    if name in job["clean"]:
        # On an adapter that is right: without the recorder the engine answers the same.
        again, _ = plain(llm, prompts, job["tokens"])
        if again != tokens:
            raise ValueError("the recorder changes what the engine answers")


def exchange(runner: Any, source: Path) -> None:
    """Put the class of another source in place of the running model's, on the same weights and caches."""
    from vllm import ModelRegistry
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader import get_model, utils

    old = type(runner.get_model())
    package = old.__module__.rpartition(".")[0]
    spec = spec_from_file_location(f"{package}.{source.stem}", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    config = runner.vllm_config
    (architecture,) = config.model_config.hf_config.architectures
    registered = ModelRegistry.models[architecture]
    ModelRegistry.models[architecture] = type(registered)(spec.name, old.__name__)
    places = config.compilation_config.static_forward_context
    before = dict(places)
    places.clear()
    utils._MODEL_ARCH_BY_HASH.clear()  # which remembers the class of the configuration
    with set_current_vllm_config(config):
        runner.model = get_model(vllm_config=config)
    if type(runner.model).__module__ != spec.name:
        raise ValueError(f"the engine took {type(runner.model)} and not the changed class")
    for name in before.keys() & places.keys():
        if not hasattr(before[name], "kv_cache"):  # experts have a place as well
            continue
        places[name].kv_cache = before[name].kv_cache
        for attribute in vars(before[name]).keys() - vars(places[name]).keys():  # what the engine's start left on them
            setattr(places[name], attribute, getattr(before[name], attribute))


if __name__ == "__main__":
    main()
