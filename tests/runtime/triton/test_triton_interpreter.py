"""Triton's interpreter rounds and multiplies as devices do, once mended; and the mending is still needed."""

import os
import subprocess
import sys

SCRIPT = """
import sys, torch, triton, triton.language as tl
if sys.argv[1] == "mended":
    import kunport_runtime.providers.triton

@triton.jit
def product(a, b, out):
    place = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out + place, tl.dot(tl.load(a + place), tl.load(b + place)))

@triton.jit
def narrow(x, out):
    place = tl.arange(0, 1024)
    tl.store(out + place, tl.load(x + place).to(out.dtype.element_ty))

torch.manual_seed(0)
a, b = torch.randn(2, 16, 16).bfloat16()
out = torch.empty(16, 16)
product[(1,)](a, b, out)
print("product", torch.allclose(out, a.float() @ b.float(), rtol=1e-4, atol=1e-4))
x = torch.randn(1024) * 2
for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
    out = torch.empty(1024, dtype=dtype)
    narrow[(1,)](x, out)
    print(dtype, torch.equal(out.float(), x.to(dtype).float()))
"""


def answers(how: str, tmp_path: object) -> dict[str, str]:
    script = f"{tmp_path}/{how}.py"  # a file: Triton reads a kernel's source
    with open(script, "w") as file:
        file.write(SCRIPT)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-W", "ignore", script, how], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    return dict(line.split(" ") for line in run.stdout.splitlines())


def test_mended_it_rounds_and_multiplies_right(tmp_path: object) -> None:
    assert set(answers("mended", tmp_path).values()) == {"True"}


def test_the_mending_is_still_needed(tmp_path: object) -> None:
    bare = answers("bare", tmp_path)
    assert bare["product"] == "False"
    assert bare["torch.bfloat16"] == "False"
