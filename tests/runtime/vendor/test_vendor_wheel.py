"""What can be wrong with the vendor's wheel is planted, and named in a sentence with its cure."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest
import torch
from kunport_runtime.devices.registry import current_device
from kunport_runtime.errors import KunportRuntimeError
from kunport_runtime.operators.device import device_kind
from kunport_runtime.operators.policy import Policy
from kunport_runtime.providers.vendor import attention
from kunport_runtime.providers.vendor.generation import known_generations, read_generation
from kunport_runtime.providers.vendor.wheel import (
    VendorWheelError,
    Wheel,
    find_wheel,
    installed_wheel,
    report_wheel,
)
from kunport_runtime.simulator.install import FUNCTIONS
from simulated_wheel import GENERATIONS, offered, simulated

NEWEST, OLDER = known_generations()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of packages, before all others, that a test plants wheels in."""
    monkeypatch.delenv("KUNPORT_SIMULATOR", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in (*GENERATIONS, "xspeedgate_ops", "cocopod"):
        sys.modules.pop(name, None)


def plant(site: Path, module: str, code: str, *tags: str) -> None:
    (site / f"{module}.py").write_text(code)
    folder = site / f"{module}-0.1.58.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 0.1.58\n")
    (folder / "WHEEL").write_text("Wheel-Version: 1.0\n" + "".join(f"Tag: {tag}\n" for tag in tags))
    importlib.invalidate_caches()


def code_of(generation, without: tuple[str, ...] = ()) -> str:
    """A module with a generation's operators but for some, which do nothing."""
    names = [symbol.path for name, symbol in generation.operators.items() if name not in without]
    here = [path.removeprefix(f"{generation.module}.") for path in names if path.startswith(generation.module)]
    there = [path.removeprefix("torch.ops.xspeedgate_ops.") for path in names if path.startswith("torch.ops.")]
    lines = [f"def {name}(*a, **k): pass" for name in here]
    space = f"SimpleNamespace({', '.join(f'{name}=print' for name in there)})"
    return "\n".join(
        ["import torch", "from types import SimpleNamespace", f"torch.ops.xspeedgate_ops = {space}", *lines]
    )


def test_none_is_installed(site):
    with pytest.raises(
        VendorWheelError, match=r"not installed \(kunlun_ops or xtorch_ops\)\. Install kunlun_ops, or set"
    ):
        find_wheel(known_generations())


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            "/opt/kunlun_ops.so: undefined symbol: _ZN3c106detail14torchCheckFailE",
            rf"kunlun_ops 0\.1\.58 was built with another torch than {torch.__version__.split('+')[0]}.* \(undefined symbol "
            r"_ZN3c106detail14torchCheckFailE\)\. Install the kunlun_ops of torch \d",
        ),
        (
            "/opt/kunlun_ops.so: wrong ELF class: ELFCLASS64",
            r"built for another machine than \w+ .*Install the kunlun_ops",
        ),
        ("libxpurt.so.2: cannot open shared object file", r"cannot be imported \(libxpurt.*Install kunlun_ops again"),
    ],
)
def test_it_does_not_load(site, error, sentence):
    plant(site, "kunlun_ops", f"raise ImportError({error!r})")
    with pytest.raises(VendorWheelError, match=sentence):
        find_wheel(known_generations())


def test_what_it_needs_is_missing(site):
    plant(site, "kunlun_ops", "import a_runtime_of_the_vendor")
    with pytest.raises(VendorWheelError, match=r"cannot be imported .*a_runtime_of_the_vendor"):
        find_wheel(known_generations())


@pytest.mark.parametrize("tag", ["cp39-cp39-linux_x86_64", "cp311-cp311-linux_s390x"])
def test_it_is_of_another_python_or_machine(site, tag):
    plant(site, "kunlun_ops", code_of(NEWEST), tag)
    python, _, system = tag.split("-")
    with pytest.raises(VendorWheelError, match=f"built for {python} on {system}, and this process is .* Install the"):
        find_wheel(known_generations())


def test_a_wheel_that_fits_has_no_fault(site):
    plant(site, "kunlun_ops", code_of(NEWEST), "py3-none-any")
    wheel = find_wheel(known_generations())
    assert (wheel.generation, wheel.missing, wheel.faults()) == (NEWEST, (), [])
    assert (str(wheel), wheel.simulated) == ("kunlun_ops 0.1.58", False)


def test_symbols_are_missing(site, caplog):
    plant(site, "kunlun_ops", code_of(NEWEST, without=("rms_norm_gated", "moe_post", "fused_moe")))
    installed_wheel.cache_clear()
    try:
        wheel = installed_wheel()
    finally:
        installed_wheel.cache_clear()
    assert "kunlun_ops 0.1.58 has no fused_moe, moe_post, rms_norm_gated. Install a newer kunlun_ops" in caplog.text
    assert {"gated_rms_norm", "fused_experts"}.isdisjoint(offered(wheel))
    assert {"rms_norm", "expert_routing"} <= set(offered(wheel))


def test_the_generation_is_stale(site):
    plant(site, "xtorch_ops", code_of(OLDER))
    wheel = find_wheel(known_generations())
    assert wheel.generation is OLDER
    (fault,) = wheel.faults()
    assert "xtorch_ops 0.1.58 is of an earlier generation, without awq_dequantize, " in fault
    assert fault.endswith("Install kunlun_ops.")


def test_no_simulator_where_the_wheel_is(site, monkeypatch):
    plant(site, "kunlun_ops", code_of(NEWEST))
    monkeypatch.setenv("KUNPORT_SIMULATOR", "1")
    with pytest.raises(
        KunportRuntimeError, match=r"where the vendor's kunlun_ops is installed\. Unset KUNPORT_SIMULATOR"
    ):
        find_wheel(known_generations())
    monkeypatch.setenv("KUNPORT_SIMULATOR", "torch_ops")
    with pytest.raises(KunportRuntimeError, match=r"no simulator of 'torch_ops'\. Set .* kunlun_ops or xtorch_ops"):
        find_wheel(known_generations())


@pytest.mark.parametrize("value", ["0", "false", ""])
def test_no_simulator_where_none_is_asked_for(site, monkeypatch, value):
    monkeypatch.setenv("KUNPORT_SIMULATOR", value)
    with pytest.raises(VendorWheelError, match="not installed"):
        find_wheel(known_generations())


def test_the_simulator_says_what_it_is(caplog, monkeypatch):
    with simulated() as wheel:
        assert str(wheel) == "the simulator of kunlun_ops on the CPU, no Kunlun"
    monkeypatch.setenv("KUNPORT_SIMULATOR", "xtorch_ops")
    try:
        find_wheel(known_generations())
    finally:
        sys.modules.pop("xtorch_ops")
    assert "are simulated on the CPU, because KUNPORT_SIMULATOR is set" in caplog.text


def test_every_name_of_a_table_is_simulated_and_every_simulation_is_named():
    named = {name for generation in known_generations() for name in generation.operators}
    assert named == set(FUNCTIONS)


def test_another_generation_is_another_table(tmp_path, monkeypatch):
    table = '{"module": "next_ops", "distribution": "next-ops", "order": 3, "before": [], "decode_batch": 64, "operators": {"rmsnorm": {"path": "next_ops.rms", "keywords": {"output": "out"}}}}'
    (tmp_path / "next_ops.json").write_text(table)
    (tmp_path / "next_ops.py").write_text("def rms(x, w, out, eps): out.copy_(x)")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("next_ops")
    wheel = Wheel(read_generation(tmp_path / "next_ops.json"))
    out = torch.empty(2)
    wheel.operator("rmsnorm")(torch.ones(2), None, output=out, eps=1e-6)
    assert torch.equal(out, torch.ones(2))
    assert set(offered(wheel)) == {"rms_norm"}


def test_a_decode_without_windows_leaves_them_to_prefill(monkeypatch):
    def without_window(out, q, k_cache, v_cache, scale, **rest): ...

    with simulated() as wheel:
        monkeypatch.setitem(wheel._functions, "speculative_attention", without_window)
        assert not wheel.takes("speculative_attention", "max_window_size")
        assert not wheel.takes("nothing", "max_window_size")
        cache = torch.empty(1, 1, 8, 32)
        chosen = [
            attention._Attention(wheel, cache, cache, 1.0, window, sinks, slopes).decode_operator() is not None
            for window, sinks, slopes in ((0, None, None), (4, None, None), (0, cache, None), (0, None, cache))
        ]
        assert chosen == [True, False, False, False]

        def without_sinks(out, q, k_cache, v_cache, scale, max_window_size, **rest): ...

        monkeypatch.setitem(wheel._functions, "speculative_attention", without_sinks)
        wheel._keywords.clear()
        windowed = attention._Attention(wheel, cache, cache, 1.0, 4, None, None)
        assert windowed.decode_operator() is not None
        assert dataclasses.replace(windowed, sinks=cache).decode_operator() is None
        monkeypatch.setitem(wheel._functions, "prefill_attention", torch.Tensor.add)  # compiled: tells nothing
        assert wheel.takes("prefill_attention", "sink")


def test_a_verdict_is_of_one_wheel(site):
    plant(site, "kunlun_ops", code_of(NEWEST))
    first = offered(find_wheel(known_generations()))["rms_norm"]
    metadata_file = site / "kunlun_ops-0.1.58.dist-info" / "METADATA"
    metadata_file.write_text(metadata_file.read_text().replace("0.1.58", "0.1.205"))
    second = offered(find_wheel(known_generations()))["rms_norm"]
    assert (first.wheel, second.wheel) == ("kunlun_ops 0.1.58", "kunlun_ops 0.1.205")
    assert first.digest() != second.digest()


def test_a_simulated_device_is_a_cpu_with_kunluns_order_of_providers(monkeypatch):
    monkeypatch.setenv("KUNPORT_DEVICE", "kunlun")
    monkeypatch.setenv("KUNPORT_SIMULATOR", "1")
    device = current_device()
    assert device.tensor_device() == torch.device("cpu")
    assert device.properties().name.startswith("simulator of kunlun")
    assert Policy().candidates("rms_norm", device_kind(device.tensor_device()))[0] == "vendor"
    monkeypatch.delenv("KUNPORT_SIMULATOR")
    assert current_device().tensor_device() == torch.device("cuda:0")


def test_at_start_the_wheel_is_named_and_so_is_its_absence(site, caplog):
    with caplog.at_level("INFO"):
        installed_wheel.cache_clear()
        report_wheel()
        plant(site, "kunlun_ops", code_of(NEWEST))
        report_wheel()
        installed_wheel.cache_clear()
    assert "are not installed (kunlun_ops or xtorch_ops)" in caplog.text
    assert "are those of kunlun_ops 0.1.58" in caplog.text
