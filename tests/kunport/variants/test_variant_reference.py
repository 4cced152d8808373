from pathlib import Path

from kunport.variants.__main__ import REFERENCE, main
from kunport.variants.catalogue import catalogue
from kunport.variants.reference import as_data, listing, page

ROOT = Path(__file__).parents[3]


def test_the_page_is_the_one_in_the_repository():
    assert (ROOT / REFERENCE).read_text() == page(), "stale: run python -m kunport.variants"


def test_every_key_is_on_the_page_in_the_listing_and_in_the_data():
    keys = [key for entry in catalogue() for key in entry.variant.keys]
    assert all(f"| `{key}` |" in page() for key in keys)
    assert [line.split()[0] for line in listing().splitlines() if line.startswith("  ")] == keys
    assert [each["key"] for each in as_data()] == keys


def test_the_command_writes_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    assert (tmp_path / REFERENCE).read_text() == page()


def test_the_command_refuses_what_it_does_not_know(capsys):
    assert main(["everything"]) == 2
    assert "everything" in capsys.readouterr().err
