import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport_runtime.operators.errors import PolicyError
from kunport_runtime.operators.policy import (
    ORDERS,
    REFERENCE_ONLY,
    VARIABLE,
    Policy,
    Rule,
    policy_of_environment,
    read_policy,
)

PROVIDERS = ("vendor", "triton", "torch", "mine")
some = st.lists(st.sampled_from(PROVIDERS), unique=True, max_size=4).map(tuple)
rules = st.builds(Rule, *(st.none() | some,) * 3, st.none() | st.booleans())


def toml(rule: Rule) -> str:
    lines = [
        f"{key} = {list(value)!r}" for key in ("order", "allow", "deny") if (value := getattr(rule, key)) is not None
    ]
    return "\n".join([*lines, *([f"strict = {str(rule.strict).lower()}"] if rule.strict is not None else [])])


@given(rules, rules, st.booleans())
def test_what_is_written_is_what_is_read(general, own, probe):
    text = f"probe = {str(probe).lower()}\n{toml(general)}\n[operators.rms_norm]\n{toml(own)}\n"
    assert read_policy(text) == Policy(general, {"rms_norm": own}, probe)


@given(rules, rules, st.sampled_from(sorted(ORDERS)))
def test_candidates_keep_to_every_rule(general, own, device):
    policy = Policy(general, {"rms_norm": own})
    rule = policy.rule("rms_norm")
    found = policy.candidates("rms_norm", device, own=("mine",))
    order = rule.order if rule.order is not None else ("mine", *ORDERS[device])
    assert list(found) == [each for each in order if each in found]
    assert not set(found) & set(rule.deny or ())
    assert not rule.allow or set(found) <= set(rule.allow)
    assert len(found) <= 1 or not rule.strict
    left = [each for each in order if each not in (rule.deny or ()) and (not rule.allow or each in rule.allow)]
    assert list(found) == (left[:1] if rule.strict else left)
    assert policy.candidates("linear", device) == Policy(general).candidates("linear", device)


def test_the_default_asks_who_is_at_home_on_the_device():
    assert Policy().candidates("rms_norm", "cpu") == ("torch",)
    assert Policy().candidates("rms_norm", "cuda") == ("triton", "torch")
    assert Policy().candidates("rms_norm", "kunlun") == ("vendor", "triton", "torch")
    assert Policy().candidates("linear", "kunlun", own=("mine",)) == ("mine", "vendor", "torch", "triton")
    assert Policy(Rule(order=("triton", "torch"))).candidates("linear", "cuda") == ("triton", "torch")
    assert REFERENCE_ONLY.candidates("rms_norm", "kunlun", own=("mine",)) == ("torch",)


def test_the_environment_names_a_file_or_holds_the_policy(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert policy_of_environment() == Policy()
    monkeypatch.setenv(VARIABLE, 'order = ["torch"]')
    assert policy_of_environment() == REFERENCE_ONLY
    (tmp_path / "policy.toml").write_text('[operators.linear]\ndeny = ["triton"]\n')
    monkeypatch.setenv(VARIABLE, os.fspath(tmp_path / "policy.toml"))
    assert policy_of_environment() == Policy(operators={"linear": Rule(deny=("triton",))})
    monkeypatch.setenv(VARIABLE, os.fspath(tmp_path / "other.toml"))
    with pytest.raises(PolicyError, match="cannot be read"):
        policy_of_environment()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("order = ", "no TOML"),
        ('order = "torch"', "order of the policy is no list"),
        ("order = [1]", "order of the policy is no list"),
        ('orders = ["torch"]', "no key orders"),
        ("strict = 1", "strict of the policy is no flag"),
        ("probe = 1", "probe is a flag"),
        ("operators = 1", "operators a table"),
        ("[operators]\nlinear = 1", "operators.linear is no table"),
        ("[operators.linear]\nprobe = true", "no key operators.linear.probe"),
    ],
)
def test_what_is_no_policy(text, fault):
    with pytest.raises(PolicyError, match=fault):
        read_policy(text)


def test_a_misspelt_name_is_no_policy():
    with pytest.raises(PolicyError, match="operator rmsnorm"):
        Policy(operators={"rmsnorm": Rule()}).check(["rms_norm"], [])
    with pytest.raises(PolicyError, match="provider tritn"):
        Policy(Rule(deny=("tritn",))).check(["rms_norm"], [])
    Policy(Rule(order=("vendor", "mine")), {"rms_norm": Rule()}).check(["rms_norm"], ["mine"])
