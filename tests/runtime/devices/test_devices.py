"""The devices behind the hardware abstraction; an accelerator's own calls are tested where there is one."""

from mmap import PAGESIZE, mmap

import pytest
import torch
from kunport_activation import NAMES, VARIABLE
from kunport_runtime.devices.registry import current_device, get_device
from kunport_runtime.errors import KunportRuntimeError


def test_every_name_has_a_device():
    assert [get_device(name).name for name in NAMES] == list(NAMES)


def test_a_device_that_does_not_exist_is_named(monkeypatch):
    monkeypatch.setenv(VARIABLE, "tpu")
    with pytest.raises(KunportRuntimeError, match=r"no device 'tpu'.*cpu, cuda, kunlun"):
        current_device()


def test_no_device_by_accident(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(KunportRuntimeError, match="No device was chosen"):
        current_device()


def test_the_cpu_tells_its_memory():
    device = get_device("cpu")
    before = device.memory()
    block = mmap(-1, 64 << 20)  # torch may have as much left from before
    for page in range(0, len(block), PAGESIZE):
        block[page] = 1
    after = device.memory()
    assert 0 < after.free <= after.total == device.properties().memory
    assert after.torch - before.torch > len(block) // 2
    assert device.tensor_device(1) == torch.device("cpu")
    device.seed(1)
    first = torch.rand(3)
    device.seed(1)
    assert torch.equal(torch.rand(3), first)


def test_the_vendors_torch_presents_itself_as_cuda():
    kunlun, cuda = get_device("kunlun"), get_device("cuda")
    assert kunlun.tensor_device(2) == cuda.tensor_device(2) == torch.device("cuda:2")
    assert (kunlun.communication_backend, kunlun.ray_resource) == ("nccl", "GPU")
    assert kunlun.supports_graphs


@pytest.mark.accelerator
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator")
def test_an_accelerator_tells_its_memory():
    device = get_device("cuda")
    device.use(0)
    before = device.memory()
    block = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    assert device.memory().torch - before.torch >= block.numel()
    assert device.memory().total == device.properties().memory
