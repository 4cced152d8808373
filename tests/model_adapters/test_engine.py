"""Adapters in the real engine: in one process, in several, with tensor parallelism, and behind the server."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import torch
from kunport.tiny_models import randomize
from kunport.tiny_models.checkpoint import write_tokenizer
from transformers import AutoModelForCausalLM, LlamaConfig, Olmo2Config

pytestmark = pytest.mark.engine

FIXTURES = Path(__file__).with_name("fixtures")
PROMPTS = [[5, 9, 77], [(31 * i) % 251 + 1 for i in range(40)], [200, 3, 3, 3, 90, 14, 250]]
SIZES = {
    "vocab_size": 256,
    "hidden_size": 128,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,  # with two ranks, both hold the same key-value head
    "max_position_embeddings": 128,
    "eos_token_id": 2,
}


def variables(*adapters, processes=True, binding="nobind"):
    return {
        "KUNPORT_ADAPTER_PATH": os.pathsep.join(str(FIXTURES / name) for name in adapters),
        "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(processes)),
        "VLLM_CPU_OMP_THREADS_BIND": binding,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def write(config, folder):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    randomize(model)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder, model


@pytest.fixture(scope="module")
def olmo2(tmp_path_factory):
    return write(Olmo2Config(**SIZES), tmp_path_factory.mktemp("olmo2"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return write(LlamaConfig(**SIZES), tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory, untraced, llama, olmo2):
    """Of each job its exit status, and its answer or else what it printed."""
    folder = tmp_path_factory.mktemp("jobs")
    other, _ = write(LlamaConfig(**SIZES, hidden_act="gelu"), folder / "other")
    cores = sorted(os.sched_getaffinity(0))[:2]  # two ranks need two of them
    binding = "|".join(map(str, cores)) if len(cores) == 2 else "nobind"
    jobs = {
        "one process": (llama[0], 1, variables("olmo2", "llama", processes=False)),
        "several processes": (olmo2[0], len(cores), variables("olmo2", binding=binding)),
        "another checkpoint": (other, 1, variables("llama", processes=False)),
    }
    requests = [
        {"checkpoint": str(at), "ranks": ranks, "environment": environment, "answer": str(folder / f"{name}.json")}
        for name, (at, ranks, environment) in jobs.items()
    ]
    command = [sys.executable, FIXTURES.with_name("engine_job.py"), json.dumps(PROMPTS), json.dumps(requests)]
    ran = subprocess.run(command, env=untraced | variables(), stdout=subprocess.PIPE, text=True, check=True)
    found = {}
    for name, status in zip(jobs, json.loads(ran.stdout.splitlines()[-1]), strict=True):
        answer = folder / f"{name}.json"
        printed = answer.with_suffix(".log").read_text(errors="replace")
        found[name] = status, json.loads(answer.read_text()) if answer.exists() else printed
    return found


@torch.no_grad()
def check(job, model, file):
    status, answer = job
    assert status == 0, answer
    assert {tuple(each) for each in answer["ran"]} == {(type(model).__name__, str(FIXTURES / file))}
    for prompt, tokens, scores in zip(PROMPTS, answer["tokens"], answer["scores"], strict=True):
        logits = model(input_ids=torch.tensor([prompt + tokens]), use_cache=False).logits[0].log_softmax(-1)
        assert logits[len(prompt) - 1 : -1].argmax(-1).tolist() == tokens
        expected = logits[: len(prompt) - 1].gather(1, torch.tensor(prompt[1:])[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(scores), expected, atol=1e-5, rtol=0)


def test_in_one_process_it_takes_the_place_of_the_class_that_vllm_has(jobs, llama):
    check(jobs["one process"], llama[1], "llama/llama.py")


def test_in_several_processes_it_serves_what_vllm_has_no_class_for(jobs, olmo2):
    check(jobs["several processes"], olmo2[1], "olmo2/olmo2.py")


def test_with_tensor_parallelism_every_worker_runs_it(jobs):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two ranks need two cores")
    _, answer = jobs["several processes"]
    assert len(answer["ran"]) == 2


def test_a_checkpoint_that_it_was_not_made_for_is_refused(jobs):
    status, printed = jobs["another checkpoint"]
    assert status != 0
    assert (
        "AdapterError: This adapter was generated for another llama configuration: "
        "hidden_act is 'gelu', expected 'silu'. Generate an adapter for this checkpoint"
    ) in printed


def test_the_server_runs_it(untraced, olmo2):
    checkpoint, model = olmo2
    options = {
        "--model": checkpoint,
        "--port": str(free_port()),
        "--host": "127.0.0.1",
        "--dtype": "float32",
        "--max-num-seqs": "4",
        "--worker-extension-cls": "kunport_model_adapters.probe.Probe",
    }
    module = "vllm.entrypoints.openai.api_server"
    command = [sys.executable, "-m", module, "--enforce-eager", *(part for pair in options.items() for part in pair)]
    developer = {"VLLM_SERVER_DEV_MODE": "1"}  # opens /collective_rpc
    url = f"http://127.0.0.1:{options['--port']}"
    with server(command, untraced | variables("olmo2") | developer, url):
        request = {"model": str(checkpoint), "prompt": PROMPTS[1], "max_tokens": 4, "temperature": 0}
        request |= {"ignore_eos": True, "return_token_ids": True}
        tokens = post(f"{url}/v1/completions", request)["choices"][0]["token_ids"]
        ran = post(f"{url}/collective_rpc", {"method": "kunport_ran_class"})["results"]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([PROMPTS[1] + tokens]), use_cache=False).logits[0]
    assert logits[len(PROMPTS[1]) - 1 : -1].argmax(-1).tolist() == tokens
    assert str(FIXTURES / "olmo2/olmo2.py") in json.dumps(ran)


@contextlib.contextmanager
def server(command, env, url):
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            deadline = time.monotonic() + 600
            while not answers(f"{url}/health"):
                assert process.poll() is None, process.stdout.read()[-4000:]
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(1)
            yield
        finally:
            process.terminate()
            process.communicate(timeout=60)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def post(url, data):
    request = urllib.request.Request(url, json.dumps(data).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
