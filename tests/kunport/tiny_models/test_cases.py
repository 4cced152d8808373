import pytest
from kunport.errors import KunportError
from kunport.tiny_models import Case, cases, find_case


def test_every_architecture_has_one_plain_case_and_names_are_unique():
    names = [str(case) for case in cases()]
    assert len(names) == len(set(names)) == 156
    assert len({case.architecture for case in cases() if not case.tag}) == 126


@pytest.mark.parametrize("name", ["llama", "LlamaForCausalLM"])
def test_a_case_is_found_by_model_type_and_by_architecture(name):
    assert find_case(name) == Case("llama", "LlamaForCausalLM", "", {})


def test_a_variant_is_found_by_its_tag():
    case = find_case("llama:llama3_rope")
    assert (case.model_type, case.tag) == ("llama", "llama3_rope")
    assert case.overrides["rope_parameters"]["rope_type"] == "llama3"


def test_every_case_is_found_by_its_own_name():
    assert all(find_case(str(case)) == case for case in cases())


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(KunportError, match=r"'lama'.*Did you mean .*llama"):
        find_case("lama")


def test_a_name_like_no_other_is_answered_with_an_example():
    with pytest.raises(KunportError, match="Name an architecture"):
        find_case("zzzzzzzzzzzzzzzz")
