"""Reading a model runs nothing of it and imports nothing that could."""

import subprocess
import sys

from both_ways import model, read


def test_a_file_whose_import_writes_a_file(tmp_path):
    mark = tmp_path / "ran"
    source = f"open({str(mark)!r}, 'w').write('x')\nimport os\nos.system('touch {mark}')\n" + model("x = x + 1")
    graph = read(tmp_path, source)
    assert not mark.exists()
    assert not graph.unknowns()


def test_a_file_whose_import_raises(tmp_path):
    source = "raise RuntimeError('imported')\nimport flash_attn\nfrom flash_attn import fast\n" + model("x = x + 1")
    assert not read(tmp_path, source).unknowns()


def test_dangerous_calls_inside_the_model_are_unknown_and_not_made(tmp_path):
    mark = tmp_path / "ran"
    calls = f"import os, subprocess, pathlib\nos.system('touch {mark}')\nsubprocess.run(['touch', '{mark}'])\n"
    calls += f"pathlib.Path('{mark}').touch()\nopen('{mark}', 'w')\neval('open(\"{mark}\", \"w\")')\nexec('x = 1')\n"
    calls += f"__import__('os').system('touch {mark}')\n().__class__.__base__.__subclasses__()\n"
    for number, call in enumerate(calls.splitlines()[1:]):
        graph = read(tmp_path, model(f"import os, subprocess, pathlib\n{call}", init=call))
        assert not mark.exists(), call
        assert graph.unknowns(), (number, call)


def test_analysis_imports_nothing_that_could_run_a_model():
    program = (
        "import sys, kunport.analysis, kunport.analysis.assemble, kunport.analysis.config, kunport.analysis.renames\n"
    )
    program += "from kunport.analysis import analyze\nassert not analyze('llama').unknowns\n"
    program += "print([name for name in ('torch', 'transformers', 'vllm', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
