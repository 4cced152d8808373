import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
from kunport.cli import main
from kunport.errors import KunportError

import kunport


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "required: VERB"),
        (["frob"], "invalid choice: 'frob'"),
        (["analyze"], "No model is named"),
        (["generate"], "required: WHAT"),
        (["generate", "kernels", "llama"], "invalid choice: 'kernels'"),
        (["port", "llama", "--fast"], "Unrecognized arguments: --fast"),
        (["analyze", "llama", "--format", "xml"], "invalid choice: 'xml'"),
        (["tiny", "llama", "--seed", "x"], "'x' is not a whole number"),
    ],
)
def test_a_wrong_call_is_one_line_with_the_cure(capsys, arguments, problem):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kunport: ")
    assert problem in err
    assert err.endswith(" --help`.\n")
    assert err.count("\n") == 1


def test_the_version_is_the_distribution_s(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"kunport {version('kunport')}\n"


@pytest.mark.parametrize(
    "verb", ["analyze", "generate adapters", "validate", "port", "tiny", "ops", "ops probe", "ops check"]
)
def test_every_verb_explains_itself(capsys, verb):
    with pytest.raises(SystemExit):
        main([*verb.split(), "--help"])
    out = capsys.readouterr().out
    assert out.startswith(f"usage: kunport {verb} ")
    assert "--format {text,json" in out


def fail_with(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(kunport, "analyze", fail, raising=False)


def test_an_error_of_the_input_is_one_line_whatever_the_model_is_called(capsys, monkeypatch):
    fail_with(monkeypatch, KunportError("No \x1b[31mmodel\n here.", "Look elsewhere."))
    assert main(["analyze", "x"]) == 2
    assert capsys.readouterr().err == "kunport: No \\x1b[31mmodel\\n here. Look elsewhere.\n"


def test_errors_are_json_where_json_is_wanted(capsys, monkeypatch):
    fail_with(monkeypatch, KunportError("No model.", "Look elsewhere."))
    assert main(["--format", "json", "analyze", "x"]) == 2
    assert json.loads(capsys.readouterr().out) == {"error": {"problem": "No model.", "cure": "Look elsewhere."}}


@pytest.mark.parametrize("arguments", [["--debug", "analyze", "x"], ["analyze", "x", "--debug"]])
def test_debug_shows_where_an_error_was_raised(capsys, monkeypatch, arguments):
    fail_with(monkeypatch, KunportError("No model.", "Look elsewhere."))
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert "in fail" in err


def test_a_bug_is_told_apart_from_a_verdict(capsys, monkeypatch):
    fail_with(monkeypatch, ZeroDivisionError("oops"))
    assert main(["analyze", "x"]) == os.EX_SOFTWARE
    assert "bug of kunport (ZeroDivisionError: oops). Run it again with --debug" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        main(["analyze", "x", "--debug"])


def test_an_interruption_ends_quietly(capsys, monkeypatch):
    fail_with(monkeypatch, KeyboardInterrupt())
    assert main(["analyze", "x"]) == 130
    assert capsys.readouterr().err == "kunport: interrupted\n"


def test_starting_imports_nothing_heavy():
    heavy = ("torch", "transformers", "vllm", "libcst", "numpy", "rich")
    code = f"import sys, kunport.cli; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m kunport analyze LlamaForCausalLM | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_in_order(tmp_path, number, status):
    """What is open is closed: the temporary folder of this command is gone afterwards."""
    code = f"""
import signal, sys, tempfile, time
from kunport.cli import main, tiny

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background command inherits that it is ignored

def run(options):
    with tempfile.TemporaryDirectory(dir={str(tmp_path)!r}):
        print("ready", flush=True)
        time.sleep(60)

tiny.run = run
sys.argv = ["kunport", "tiny", "llama"]
sys.exit(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert b"kunport: interrupted\n" in err
    assert b"Traceback" not in err
    assert list(tmp_path.iterdir()) == []
