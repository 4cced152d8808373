import json
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kunport_runtime import operators
from kunport_runtime.operators.account_files import read_accounts
from kunport_runtime.operators.accounting import Record, demand_no_fallback, layer
from kunport_runtime.operators.errors import (
    ContractError,
    FallbackError,
    OperatorFailedError,
    PolicyError,
    UnsupportedOperatorError,
)
from kunport_runtime.operators.limit import Limit
from kunport_runtime.operators.policy import REFERENCE_ONLY, Policy, Rule
from toy_operator import Flaky, mine, multiply, multiply_in_place, world

X = torch.arange(8.0).view(2, 4)


def test_the_first_that_takes_the_call_runs_it_and_is_counted(tmp_path):
    function = Flaky(multiply)
    dispatcher, account = world(tmp_path, mine(function, Limit("rows", maximum=5)))
    with layer("model.layers.0"):
        assert torch.equal(dispatcher.call("scale", x=X), 2 * X)
        dispatcher.call("scale", x=X, factor=5.0)
    large = torch.ones(6, 4)
    out = torch.empty(6, 4)
    assert dispatcher.call("scale", x=large, out=out) is out
    assert account.records() == [
        Record("model.layers.0", "scale", "mine", 2, {}),
        Record("", "scale", "torch", 1, {"mine": "it takes a call only where rows is at most 5"}),
    ]
    assert [record.fallback for record in account.records()] == [False, True]


@settings(max_examples=25)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_every_call_goes_to_the_first_whose_limits_it_keeps(tmp_path_factory, sizes, first, second):
    implementations = (
        mine(multiply, Limit("rows", maximum=first), provider="a"),
        mine(multiply, Limit("rows", maximum=second), provider="b"),
    )
    policy = Policy(Rule(order=("a", "b", "torch")), probe=False)
    dispatcher, account = world(tmp_path_factory.getbasetemp(), *implementations, policy=policy)
    for rows in sizes:
        dispatcher.call("scale", x=torch.ones(rows, 4))
    counted = {
        name: sum(each.count for each in account.records() if each.provider == name) for name in ("a", "b", "torch")
    }
    expected = ["a" if rows <= first else "b" if rows <= second else "torch" for rows in sizes]
    assert counted == {name: expected.count(name) for name in counted}


def test_a_call_that_does_not_fit_is_refused_before_and_after_one_that_did(tmp_path):
    dispatcher, _ = world(tmp_path)
    for _ in range(2):
        with pytest.raises(ContractError, match="last stride"):
            dispatcher.call("scale", x=X.T)
        with pytest.raises(ContractError, match="factor"):
            dispatcher.call("scale", x=X, factor=[2.0])
        dispatcher.call("scale", x=X)


def test_beyond_the_contracts_limits_nobody_is_asked(tmp_path):
    dispatcher, _ = world(tmp_path)
    with pytest.raises(UnsupportedOperatorError, match=r"scale\(x: float32\[1, 101\]\): size is 101, above 100"):
        dispatcher.call("scale", x=torch.zeros(1, 101))


def test_without_rows_nobody_is_asked(tmp_path):
    function = Flaky(multiply)
    dispatcher, account = world(tmp_path, mine(function))
    for _ in range(2):
        assert dispatcher.call("scale", x=torch.ones(0, 4)).shape == (0, 4)
    assert dispatcher.call("scale_in_place", x=torch.ones(0, 4)) is None
    with pytest.raises(ContractError, match="factor"):
        dispatcher.call("scale", x=torch.ones(0, 4), factor="2")
    assert function.calls == 0
    assert account.records() == []


def test_sizes_without_number_do_not_make_the_account_grow(tmp_path):
    dispatcher, account = world(tmp_path, mine(multiply, Limit("rows", maximum=5)), policy=Policy(probe=False))
    for rows in range(1, 5000):
        dispatcher.call("scale", x=torch.ones(rows, 1))
    assert [(each.provider, each.count) for each in account.records()] == [("mine", 5), ("torch", 4994)]
    remembered = (account._counts, dispatcher._calls, dispatcher._decisions, dispatcher._kinds)
    assert [len(each) < 4097 for each in remembered] == [True] * 4
    assert len(account._counts) == len(dispatcher._kinds) == 2


def test_an_unsupported_call_names_operator_arguments_and_cure(tmp_path):
    policy = Policy(Rule(deny=("torch",)))
    dispatcher, _ = world(tmp_path, mine(multiply, Limit("factor", one_of=(3.0,))), policy=policy)
    dispatcher.call("scale", x=X, factor=3.0)
    with pytest.raises(UnsupportedOperatorError) as raised:
        dispatcher.call("scale", x=X, factor=4.0)
    assert "scale(x: float32[2, 4], factor=4.0" in raised.value.problem
    assert "mine: factor is 4.0, not 3.0" in raised.value.problem
    assert "Allow torch" in raised.value.cure
    with pytest.raises(UnsupportedOperatorError, match="There is no operator nothing"):
        dispatcher.call("nothing", x=X)


def test_strict_asks_nobody_else(tmp_path):
    policy = Policy(operators={"scale": Rule(strict=True)})
    dispatcher, _ = world(tmp_path, mine(multiply, Limit("rows", maximum=4)), policy=policy)
    dispatcher.call("scale", x=X)
    with pytest.raises(UnsupportedOperatorError, match="mine: rows is 5, above 4"):
        dispatcher.call("scale", x=torch.ones(5, 4))


def test_what_raises_is_replaced_and_reported_and_the_call_is_not_lost(tmp_path, caplog):
    function = Flaky(multiply)
    dispatcher, account = world(tmp_path, mine(function))
    dispatcher.call("scale", x=X)
    function.error = RuntimeError("out of registers")
    assert torch.equal(dispatcher.call("scale", x=X), 2 * X)
    calls = function.calls
    assert torch.equal(dispatcher.call("scale", x=X), 2 * X)
    assert function.calls == calls, "it is out of service"
    assert [(each.provider, each.count, each.skipped) for each in account.records()] == [
        ("mine", 1, {}),
        ("torch", 2, {"mine": "RuntimeError: out of registers"}),
    ]
    assert [each.reason for each in account.failures] == ["RuntimeError: out of registers"]
    dispatcher.call("scale", x=X.bfloat16())  # another dtype: tried, and found wanting there as well
    assert {each.dtype for each in account.failures} == {"float32", "bfloat16"}
    assert caplog.messages[0] == "mine's scale is out of service in float32: RuntimeError: out of registers"


def test_an_update_in_place_is_undone_before_another_repeats_it(tmp_path):
    function = Flaky(multiply_in_place)
    function.before_failing = lambda x, factor: x.fill_(torch.nan)
    dispatcher, _ = world(tmp_path, mine(function, operator="scale_in_place"), policy=Policy(probe=False))
    function.error = RuntimeError("no such instruction")
    x = X.clone()
    assert dispatcher.call("scale_in_place", x=x) is None
    assert torch.equal(x, 2 * X)


def test_an_update_in_place_that_cannot_be_undone_is_an_error(tmp_path):
    function = Flaky(multiply_in_place)
    dispatcher, account = world(tmp_path, mine(function, operator="scale_in_place"), policy=Policy(probe=False))
    x = X.clone()
    dispatcher.call("scale_in_place", x=x)
    function.error = RuntimeError("lost")
    with pytest.raises(OperatorFailedError, match=r"scale_in_place\(x: float32\[2, 4\]\) failed on mine"):
        dispatcher.call("scale_in_place", x=x)
    dispatcher.call("scale_in_place", x=x)
    assert [each.provider for each in account.records()] == ["mine", "torch"]


def test_memory_that_is_short_is_no_fault_of_the_kernel(tmp_path):
    function = Flaky(multiply)
    dispatcher, account = world(tmp_path, mine(function))
    dispatcher.call("scale", x=X)
    function.error = torch.OutOfMemoryError("full")
    with pytest.raises(torch.OutOfMemoryError):
        dispatcher.call("scale", x=X)
    function.error = None
    dispatcher.call("scale", x=X)
    assert not account.failures
    assert [(each.provider, each.count) for each in account.records()] == [("mine", 2)]


def test_no_fallback_can_be_demanded(tmp_path):
    dispatcher, account = world(tmp_path, mine(multiply, Limit("rows", maximum=4)))
    many = torch.ones(5, 4)
    with demand_no_fallback():
        dispatcher.call("scale", x=X)
        with (
            layer("mlp"),
            pytest.raises(FallbackError, match=r"scale in mlp would run on torch \(mine: it takes .* at most 4"),
        ):
            dispatcher.call("scale", x=many)
    dispatcher.call("scale", x=many)
    assert sum(record.count for record in account.records()) == 2


def test_another_policy_is_in_force_from_the_next_call_on(tmp_path):
    dispatcher, account = world(tmp_path, mine(multiply))
    dispatcher.call("scale", x=X)
    dispatcher.use(REFERENCE_ONLY)
    dispatcher.call("scale", x=X)
    assert [record.provider for record in account.records()] == ["mine", "torch"]
    dispatcher.use(Policy(Rule(order=("their",))))
    with pytest.raises(PolicyError, match="their"):
        dispatcher.call("scale", x=X)
    account.clear()
    assert account.records() == []


def test_a_provider_without_the_operator_is_a_reason(tmp_path):
    dispatcher, account = world(tmp_path, mine(multiply), policy=Policy(Rule(order=("vendor", "mine", "torch"))))
    dispatcher.call("scale_in_place", x=X.clone())
    (record,) = account.records()
    assert record.provider == "torch"
    assert record.skipped["mine"] == "it has no scale_in_place"
    assert record.skipped["vendor"]


def test_operators_are_functions_of_the_package():
    x = torch.randn(3, 8)
    out = operators.rms_norm(x=x, weight=torch.ones(8), epsilon=0.0)
    assert torch.allclose(out.square().mean(-1), torch.ones(3))
    with pytest.raises(AttributeError, match="no operator nothing"):
        _ = operators.nothing


SERVER = """
import multiprocessing, sys, torch
from kunport_runtime import operators

def work(rows):
    for _ in range(rows):
        operators.rms_norm(x=torch.ones(rows, 4), weight=None, epsilon=0.0)

if __name__ == "__main__":
    work(1)
    worker = multiprocessing.get_context("fork").Process(target=work, args=(2,))
    worker.start()
    worker.join()
"""


def test_every_process_of_a_server_leaves_its_own_account(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    environment = os.environ | {"KUNPORT_OPS_ACCOUNT": str(tmp_path / "account")}
    environment.pop("KUNPORT_DEVICE", None)
    subprocess.run([sys.executable, "server.py"], cwd=tmp_path, env=environment, check=True)
    files = list((tmp_path / "account").iterdir())
    counts = sorted(json.loads(path.read_text())["records"][0]["count"] for path in files)
    assert counts == [1, 2]
    (record,), failures = read_accounts(tmp_path / "account")
    assert record == Record("", "rms_norm", "torch", 3, {})
    assert failures == []
