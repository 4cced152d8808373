"""``kunport ops``: the operators that adapters run on, who implements them, and whether that is right."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kunport.cli import ops_bench, ops_tune
from kunport.cli.arguments import Verbs
from kunport.cli.terminal import say
from kunport.errors import KunportError

if TYPE_CHECKING:
    import torch
    from kunport_runtime.operators.check import Outcome
    from kunport_runtime.operators.overview import Choice

_DTYPES = ("float32", "float16", "bfloat16")


def add_to(verbs: Verbs[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add the verb to the command's parser."""
    shared = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    shared.add_argument("--dtype", choices=_DTYPES, help="(default: float32 on the CPU, bfloat16 elsewhere)")
    shared.add_argument("--device", choices=("cpu", "cuda"), help="torch's name (default: the one in use)")
    shared.add_argument("--operators-file", type=Path, metavar="FILE", help="a file with operators of your own")
    ops = verbs.add_parser(
        "ops",
        parents=[common, shared],
        help="say which provider runs each operator, and hold it against the contract",
        description="Alone: every operator with the provider that would run it here, and why others would not. Tries "
        "nothing; what was never tried on this device is said to be so.",
    )
    ops.set_defaults(run=run_list)
    what = ops.add_subparsers(title="what else to do", metavar="WHAT")
    probe = what.add_parser(
        "probe",
        parents=[common, shared],
        help="try every implementation that may be chosen, and remember the verdicts",
        description="Exit status 1 where one does not compile or gives wrong numbers; it is not used then.",
    )
    probe.add_argument("operators", metavar="OPERATOR", nargs="*", help="which (default: all)")
    probe.set_defaults(run=run_probe)
    check = what.add_parser(
        "check",
        parents=[common, shared],
        help="hold an implementation against every case of an operator's contract",
        description="Exit status 1 where a case is wrong, or none is within the implementation's limits.",
    )
    check.add_argument("operator", metavar="OPERATOR", help="as `kunport ops` names it")
    check.add_argument("--provider", metavar="PROVIDER", default="torch", help="whose implementation (torch)")
    check.add_argument("--seed", type=int, metavar="SEED", default=0, help="of the inputs (0)")
    check.set_defaults(run=run_check)
    account = what.add_parser(
        "account",
        parents=[common],
        help="which layer of a server ran which operator with which provider, and why others did not",
        description="Reads what the processes of a server wrote when they ended, if it ran with "
        "KUNPORT_OPS_ACCOUNT=FOLDER. Exit status 1 where an implementation failed.",
    )
    account.add_argument("folder", metavar="FOLDER", type=Path, help="what KUNPORT_OPS_ACCOUNT named")
    account.set_defaults(run=run_account)
    ops_bench.add_to(what, common)
    ops_tune.add_to(what, common)


def run_list(options: argparse.Namespace) -> int:
    """Print a line for each operator."""
    with runtime_errors():
        from kunport_runtime.operators.dispatch import dispatcher
        from kunport_runtime.operators.overview import overview

        device, dtype = _prepare(options)
        choices = list(overview(dispatcher, device, dtype))
    if options.format == "json":
        operators = [asdict(each) for each in choices]
        say(json.dumps({"device": str(device), "dtype": dtype, "operators": operators}))
        return 0
    say(f"On {device}, in {dtype}:")
    width = max(len(each.operator) for each in choices)
    family = ""
    for each in choices:
        if each.family != family:
            family = each.family
            say(f"{family}")
        say(f"  {each.operator:<{width}}  {_choice(each)}")
    return 0


def _choice(choice: Choice) -> str:
    provider = choice.provider or "nobody"
    reasons = "; ".join(f"not {other}: {reason}" for other, reason in choice.others.items())
    return provider + ("" if choice.tried else " (not tried yet)") + (f"    {reasons}" if reasons else "")


def run_probe(options: argparse.Namespace) -> int:
    """Try implementations; 1 where one is not to be used."""
    with runtime_errors():
        from kunport_runtime.operators.dispatch import dispatcher
        from kunport_runtime.operators.overview import try_all

        device, dtype = _prepare(options)
        trials = []
        for trial in try_all(dispatcher, device, [dtype], options.operators):
            trials.append(trial)
            if options.format == "text":
                say(f"{trial.provider} {trial.operator}: {trial.reason or 'right'}")
    wrong = [trial for trial in trials if trial.reason]
    if options.format == "json":
        say(json.dumps({"device": str(device), "trials": [asdict(each) for each in trials]}))
    else:
        say(f"{len(trials) - len(wrong)} of {len(trials)} implementations are right on {device}, in {dtype}.")
    return 1 if wrong else 0


def run_check(options: argparse.Namespace) -> int:
    """Run every case; 1 where one is wrong."""
    with runtime_errors():
        from kunport_runtime.operators.check import check
        from kunport_runtime.operators.registry import registry

        device, dtype = _prepare(options)
        contract = registry.contract(options.operator)
        implementations = registry.implementations(options.operator)
        if options.provider not in implementations:
            reason = registry.absence(options.provider)
            raise KunportError(
                f"{options.provider} has no {options.operator}{f' ({reason})' if reason else ''}.",
                f"It is implemented by {', '.join(implementations)}.",
            )
        outcomes = list(check(contract, implementations[options.provider], dtype, device, seed=options.seed))
    good = all(not each.fault for each in outcomes) and any(not each.skipped for each in outcomes)
    if options.format == "json":
        cases = [
            {"case": e.case, "skipped": e.skipped, "fault": e.fault, "error": min(e.error, 1e30)} for e in outcomes
        ]
        answer = {"operator": options.operator, "provider": options.provider, "device": str(device)}
        say(json.dumps({**answer, "right": good, "cases": cases}))
    else:
        for outcome in outcomes:
            say(f"{_verdict(outcome):<24}  {outcome.case}")
        tolerance = contract.tolerance[dtype]
        say(f"Tolerance: {tolerance.absolute:.2g} + {tolerance.relative:.2g} of the value ({tolerance.source}).")
    return 0 if good else 1


def run_account(options: argparse.Namespace) -> int:
    """Print what ran, the fallbacks marked; 1 where something failed."""
    with runtime_errors():
        from kunport_runtime.operators.account_files import read_accounts

        records, failures = read_accounts(options.folder)
    if options.format == "json":
        say(json.dumps({"records": [asdict(e) for e in records], "failures": [asdict(e) for e in failures]}))
        return 1 if failures else 0
    layer = None
    for record in sorted(records, key=lambda each: (natural(each.layer), each.operator)):
        if record.layer != layer:
            layer = record.layer
            say(layer or "(no layer)")
        reasons = "; ".join(f"not {provider}: {reason}" for provider, reason in record.skipped.items())
        say(f"  {record.count:>8} {record.operator:<24}  {record.provider}" + (f"    {reasons}" if reasons else ""))
    total = sum(record.count for record in records)
    fallbacks = sum(record.count for record in records if record.skipped)
    say(f"{total} calls, {fallbacks} of them not on the first provider.")
    for failure in failures:
        say(f"FAILED: {failure.provider}'s {failure.operator} in {failure.dtype}: {failure.reason}")
    return 1 if failures else 0


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts layers by their numbers: model.layers.2 before model.layers.10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in name.split(".")]


def _verdict(outcome: Outcome) -> str:
    if outcome.skipped:
        return f"skipped, {outcome.skipped}"
    return f"WRONG, {outcome.fault}" if outcome.fault else f"{outcome.error:.3f} of the tolerance"


def _prepare(options: argparse.Namespace) -> tuple[torch.device, str]:
    """The device and dtype that are meant, with one's own operators registered."""
    import torch
    from kunport_activation import requested_device
    from kunport_runtime.devices.registry import get_device
    from kunport_runtime.operators.registry import load_operators, registry

    given = vars(options)
    if "operators_file" in given:
        load_operators(given["operators_file"], registry)
    named = requested_device()
    if "device" in given:
        device = torch.device(given["device"])
    elif named is not None:
        device = get_device(named).tensor_device()
    else:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise KunportError("There is no accelerator that torch can use.", "Take --device cpu.")
    return device, given.get("dtype") or ("float32" if device.type == "cpu" else "bfloat16")


@contextmanager
def runtime_errors() -> Iterator[None]:
    """Errors of the runtime are the user's to see as those of kunport are."""
    from kunport_runtime.errors import KunportRuntimeError

    if find_spec("torch") is None:
        raise KunportError("The operators need torch, which is not installed.", "Run `pip install torch`.")
    try:
        yield
    except KunportRuntimeError as error:
        raise KunportError(error.problem, error.cure) from error
