"""What `test_serving` runs: engines on kunport's platform, each in a fork of a process that has imported vLLM once.

``python scenarios.py CHECKPOINT ANSWERS NAME ...`` writes ``ANSWERS/NAME.json`` for each scenario. Where
``KUNPORT_TEST_TRACED`` names coverage's settings, it is measured in the forks: to trace the import would take as long
as a scenario.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOKENS = 20
CONTEXT = 128
PIECES = 9  # pages: too few for all requests at once


def prompts(vocabulary: int) -> list[list[int]]:
    """Some with a common beginning, one shorter than a page, and one longer than what a step may read."""
    import torch

    random = torch.Generator().manual_seed(0)

    def draw(count: int) -> list[int]:
        return torch.randint(0, vocabulary, (count,), generator=random).tolist()

    common = draw(40)
    return [common + draw(5), common + draw(30), draw(3), draw(33), draw(64), draw(90)]


def engine(checkpoint: str, **options: Any) -> Any:
    from vllm import LLM

    settings = {
        "skip_tokenizer_init": True,
        "dtype": "float32",
        "max_model_len": CONTEXT,
        "max_num_seqs": 8,
        "block_size": 16,
        "kv_cache_memory_bytes": 32 << 20,
        "disable_log_stats": False,
    }
    return LLM(model=checkpoint, **settings | options)


def answers(llm: Any, **sampling: Any) -> list[dict[str, Any]]:
    """Tokens and their log-probabilities."""
    from vllm import SamplingParams

    vocabulary = llm.llm_engine.vllm_config.model_config.get_vocab_size()
    parameters = SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False, logprobs=0, **sampling)
    outputs = llm.generate([{"prompt_token_ids": each} for each in prompts(vocabulary)], parameters, use_tqdm=False)
    found = []
    for output in outputs:
        tokens = list(output.outputs[0].token_ids)
        logprobs = [step[token].logprob for token, step in zip(tokens, output.outputs[0].logprobs, strict=True)]
        ended = [output.outputs[0].finish_reason, output.outputs[0].stop_reason]
        found.append({"tokens": tokens, "logprobs": logprobs, "cached": output.num_cached_tokens, "ended": ended})
    return found


GREEDY = {"temperature": 0.0}
SEEDED = {"temperature": 0.9, "top_k": 30, "top_p": 0.95, "seed": 5}


def reference(checkpoint: str) -> Any:
    """The model of Transformers itself, greedy."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    found = []
    for prompt in prompts(model.config.vocab_size):
        ids, logprobs = list(prompt), []
        for _ in range(TOKENS):
            with torch.no_grad():
                last = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            ids.append(int(last.argmax()))
            logprobs.append(float(last.max()))
        found.append({"tokens": ids[len(prompt) :], "logprobs": logprobs})
    return found


def plain(checkpoint: str) -> Any:
    """Nothing runs short, nothing is shared; and what ran where."""
    llm = engine(checkpoint, enable_prefix_caching=False)
    from kunport_runtime.operators.accounting import demand_no_fallback
    from vllm.platforms import current_platform

    with demand_no_fallback():
        greedy = answers(llm, **GREEDY)
    return {
        "platform": type(current_platform).__module__,
        "greedy": greedy,
        "seeded": answers(llm, **SEEDED),
        "operators": llm.collective_rpc("kunport_operators")[0],
    }


def accelerators(checkpoint: str) -> Any:
    """What the platforms of accelerators name, resolved as vLLM would; no device is touched."""
    from kunport_runtime.engine.platforms.accelerator import CudaPlatform, KunlunPlatform
    from vllm.utils.import_utils import resolve_obj_by_qualname

    found = {}
    for platform in (CudaPlatform(), KunlunPlatform()):
        paths = [platform.worker, platform.get_device_communicator_cls(), platform.get_punica_wrapper()]
        found[platform.device.name] = {
            "classes": [resolve_obj_by_qualname(path).__name__ for path in paths],
            "out_of_tree": platform.is_out_of_tree() and not platform.is_cuda_alike(),
            "type": platform.device_type,
            "ray": platform.ray_device_key,
            "variable": platform.device_control_env_var,
        }
    return found


def pressed(checkpoint: str) -> Any:
    """Prefixes are shared, prompts read in pieces, and requests preempted for want of cache."""
    llm = engine(checkpoint, max_num_batched_tokens=32, kv_cache_memory_bytes=12 * 65536)
    found = {"greedy": answers(llm, **GREEDY), "seeded": answers(llm, **SEEDED), "again": answers(llm, **GREEDY)}
    preempted = [metric.value for metric in llm.get_metrics() if metric.name == "vllm:num_preemptions"]
    return found | {"preemptions": sum(preempted)}


def pieces(checkpoint: str) -> Any:
    """As `pressed`, of a model that keeps states: a page has as many tokens as a state has bytes."""
    llm = engine(checkpoint, max_num_batched_tokens=48, num_gpu_blocks_override=PIECES)
    found = {"greedy": answers(llm, **GREEDY), "again": answers(llm, **GREEDY)}
    preempted = [metric.value for metric in llm.get_metrics() if metric.name == "vllm:num_preemptions"]
    return found | {"preemptions": sum(preempted)}


def asleep(checkpoint: str) -> Any:
    """The accounts of memory, before, during and after a sleep."""
    llm = engine(checkpoint, enable_sleep_mode=True)
    model = llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner.model
    tensors = [*model.parameters(), *model.buffers()]
    held = sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}.values())
    before = llm.collective_rpc("kunport_memory")[0]
    llm.sleep(level=1)
    during = llm.collective_rpc("kunport_memory")[0]
    llm.wake_up()
    return {"model": held, "before": before, "during": during, "greedy": answers(llm, **GREEDY)}


def poor(checkpoint: str) -> Any:
    """The error where the budget is too small."""
    os.environ["KUNPORT_MEMORY_BUDGET"] = "1MiB"
    try:
        engine(checkpoint)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": ""}


def exhausted(checkpoint: str) -> Any:
    """Memory is wanting for more than two requests at once, and for a request beyond 100 tokens even alone."""
    import torch
    from kunport_runtime.operators.dispatch import dispatcher
    from kunport_runtime.operators.implementation import Implementation
    from kunport_runtime.operators.policy import Policy, Rule

    reference, failures = dispatcher.registry.contract("paged_attention").reference, []

    def attend(**arguments: Any) -> None:
        if len(arguments["seq_lens"]) > 2 or int(arguments["seq_lens"].max()) > 100:
            failures.append(len(arguments["seq_lens"]))
            torch.empty(1 << 50)
        reference(**arguments)

    llm = engine(checkpoint, max_num_batched_tokens=48)
    dispatcher.registry.register(Implementation("paged_attention", "hungry", attend))
    dispatcher.use(Policy(probe=False))
    found = {"greedy": answers(llm, **GREEDY), "seeded": answers(llm, **SEEDED), "failures": failures.copy()}
    dispatcher.use(Policy(probe=False, operators={"paged_attention": Rule(deny=("hungry",))}))
    scheduler = type(llm.llm_engine.engine_core.engine_core.scheduler).__name__
    return found | {
        "scheduler": scheduler,
        "after": answers(llm, **GREEDY),
        "out_of_service": len(dispatcher.ledger.failures),
    }


def configured_with(change: Callable[[Any], None]) -> None:
    """Has a change made to what vLLM's platform of the CPU decides for itself."""
    from vllm.platforms.cpu import CpuPlatform

    configure = CpuPlatform.check_and_update_config.__func__

    def configure_and_change(platform: Any, vllm_config: Any) -> None:
        configure(platform, vllm_config)
        change(vllm_config)

    CpuPlatform.check_and_update_config = classmethod(configure_and_change)


def overlapped(checkpoint: str) -> Any:
    """The same where a batch is scheduled while another runs, as on accelerators."""

    def overlap(vllm_config: Any) -> None:
        vllm_config.scheduler_config.async_scheduling = True

    configured_with(overlap)
    return exhausted(checkpoint)


def tuned(checkpoint: str) -> Any:
    """A batch of which half runs with LoRA weights, against the model with these added to its own."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM
    from vllm import SamplingParams
    from vllm.lora.request import LoRARequest

    rank, alpha, random = 8, 16, torch.Generator().manual_seed(1)
    kinds = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    weights = {}
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in kinds:
            down = torch.randn(rank, module.in_features, generator=random) / 2
            up = torch.randn(module.out_features, rank, generator=random) / 2
            weights |= {f"base_model.model.{name}.lora_A.weight": down, f"base_model.model.{name}.lora_B.weight": up}
            module.weight.data += alpha / rank * up @ down
    folder = Path("lora")
    folder.mkdir()
    save_file(weights, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": kinds, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    prompt = prompts(model.config.vocab_size)[3]
    expected = model.generate(torch.tensor([prompt]), max_new_tokens=TOKENS, do_sample=False, eos_token_id=None)

    llm = engine(checkpoint, enable_lora=True, max_lora_rank=rank)
    parameters = SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False, temperature=0.0)
    requests = [None, LoRARequest("tuned", 1, str(folder.resolve()))]
    outputs = llm.generate([{"prompt_token_ids": prompt}] * 2, parameters, use_tqdm=False, lora_request=requests)
    plain, with_weights = (list(output.outputs[0].token_ids) for output in outputs)
    return {"plain": plain, "tuned": with_weights, "expected": expected[0, len(prompt) :].tolist()}


def parallel(checkpoint: str) -> Any:
    """Two ranks, a process each; in the end one of them dies."""

    def fork(vllm_config: Any) -> None:
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"  # everything is imported already

    configured_with(fork)
    llm = engine(checkpoint, enable_prefix_caching=False, tensor_parallel_size=2)
    found = {"greedy": answers(llm, **GREEDY), "seeded": answers(llm, **SEEDED)}
    worker = llm.collective_rpc("kunport_process")[1]
    os.kill(worker, signal.SIGKILL)
    begin = time.monotonic()
    try:
        answers(llm, **GREEDY)
    except Exception as error:
        found["killed"] = f"{type(error).__name__}: {error}"
    return found | {"seconds": time.monotonic() - begin}


def nodes(checkpoint: str) -> Any:
    """Two ranks, each on a Ray node of its own with one core and one declared device."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    node = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 80 << 20}
    try:
        cluster = Cluster(initialize_head=True, head_node_args=node)
        cluster.add_node(**node)
    except Exception as error:
        return {"no_cluster": f"{type(error).__name__}: {error}"}
    try:
        os.environ["RAY_ADDRESS"] = cluster.address
        llm = engine(
            checkpoint, enable_prefix_caching=False, tensor_parallel_size=2, distributed_executor_backend="ray"
        )
        workers = llm.llm_engine.engine_core.engine_core.model_executor.ray_worker_handles
        found = {"greedy": answers(llm, **GREEDY), "seeded": answers(llm, **SEEDED)}
        found["nodes"] = [worker.node_id for worker in workers]
        # Later it would ask Ray for its workers once more, which looks for the cluster that is gone until it is killed.
        llm.llm_engine.engine_core.shutdown()
        return found
    finally:
        ray.shutdown()
        cluster.shutdown()


def layers(checkpoint: str) -> Any:
    """How far each layer of ours is from vLLM's plain torch, relative to its largest number."""
    import torch
    from kunport_runtime.engine.layers.positions import PLAIN, Rotation
    from kunport_runtime.engine.layers.registration import register_layers
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers import activation, layernorm
    from vllm.model_executor.layers.rotary_embedding import get_rope

    torch.manual_seed(0)
    register_layers()
    found: dict[str, float] = {}

    def compare(name: str, layer: Any, *arguments: Any) -> None:
        with torch.no_grad():
            ours = layer.forward_oot(*[each.clone() for each in arguments])
            theirs = layer.forward_native(*[each.clone() for each in arguments])
        assert type(layer).__module__.startswith("kunport_runtime"), name
        pairs = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
        found[name] = max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)

    with set_current_vllm_config(VllmConfig()):
        x, residual = torch.randn(7, 96), torch.randn(7, 96)
        for kind in (layernorm.RMSNorm, layernorm.GemmaRMSNorm):
            layer = kind(96)
            torch.nn.init.normal_(layer.weight)
            compare(kind.__name__, layer, x)
            compare(f"{kind.__name__} with a residual", layer, x, residual)
            compare(f"{kind.__name__} of heads", layer, torch.randn(5, 3, 96))
        compare("LayerNorm", layernorm.LayerNorm(96), x)
        compare("SiluAndMul", activation.SiluAndMul(), x)
        compare("GeluAndMul", activation.GeluAndMul(), x)
        compare("GeluAndMul tanh", activation.GeluAndMul("tanh"), x)
        compare("SiluAndMulWithClamp", activation.SiluAndMulWithClamp(0.5, 1.7, 1.0), x)
        compare("SwigluOAIAndMul", activation.SwigluOAIAndMul(), x)
        for group_size, first in ((None, True), (None, False), (32, False)):
            gated = layernorm.RMSNormGated(96, group_size=group_size, norm_before_gate=first)
            torch.nn.init.normal_(gated.weight)
            compare(f"RMSNormGated {group_size} {first}", gated, x, residual)
        compare("RMSNormGated without a gate", layernorm.RMSNormGated(96), x)
        for interleaved, sections in ((False, [4, 6, 6]), (True, [8, 4, 4])):
            parameters = {"rope_theta": 1e4, "mrope_section": sections, "mrope_interleaved": interleaved}
            rope = get_rope(32, 128, rope_parameters=parameters | {"rope_type": "default"})
            heads = torch.randn(9, 4 * 32), torch.randn(9, 64)
            compare(f"mrope {interleaved}", rope, torch.randint(0, 100, (3, 9)), *heads)
            compare(f"mrope {interleaved} on one axis", rope, torch.arange(9), *heads)
        scalings = ("default", "linear", "dynamic", "llama3", "yarn")
        for scaling in scalings:
            parameters = {
                "rope_type": scaling,
                "rope_theta": 10000.0,
                "factor": 2.0,
                "original_max_position_embeddings": 64,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
            }
            for neox in (True, False):
                rope = get_rope(32, 128, is_neox_style=neox, rope_parameters=parameters)
                assert isinstance(rope, Rotation)
                compare(f"rope {scaling} {neox}", rope, torch.arange(9), torch.randn(9, 4 * 32), torch.randn(9, 64))
    return {"errors": found, "rotations": len(PLAIN)}


def compiler(checkpoint: str) -> Any:
    """What becomes of a configuration that asks for a compiler."""
    from vllm.config import CompilationConfig, VllmConfig

    configuration = VllmConfig(compilation_config=CompilationConfig(backend="inductor")).compilation_config
    return {"mode": configuration.mode.name, "custom_ops": configuration.custom_ops}


def measure_coverage() -> None:
    if settings := os.environ.get("KUNPORT_TEST_TRACED"):
        import coverage

        os.environ["COVERAGE_PROCESS_START"] = settings
        coverage.process_startup()


def main() -> None:
    checkpoint, folder, *names = sys.argv[1:]
    import transformers.modeling_utils  # noqa: F401
    import vllm.entrypoints.llm  # noqa: F401

    for name in names:
        if not (child := os.fork()):
            try:
                measure_coverage()
                Path(folder, f"{name}.json").write_text(json.dumps(globals()[name](checkpoint)))
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
