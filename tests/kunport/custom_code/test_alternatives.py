"""Attention bodies that disagree are reported."""

from fixture_models import NAMES, analyzed


def test_a_body_that_reads_more_of_the_configuration_is_named():
    (note,) = [each for each in analyzed("attention_dictionary").graph.notes if "may compute different" in each]
    assert "TrioFlashAttention2, which TRIO_ATTENTION_CLASSES has for flash_attention_2" in note
    assert "reads config.sliding_window, and TrioAttention does not" in note


def test_each_body_that_reads_other_fields_is_named():
    notes = [each for each in analyzed("disagreeing_bodies").graph.notes if "may compute different" in each]
    assert any("DuoFlashAttention" in note and "local_span" in note for note in notes)
    assert any("DuoSdpaAttention" in note and "score_cap" in note for note in notes)


def test_bodies_that_agree_are_not():
    other = [name for name in NAMES if name not in ("attention_dictionary", "alibi_mask", "keyword_transformer")]
    assert not any("may compute different" in note for name in other[:4] for note in analyzed(name).graph.notes)
