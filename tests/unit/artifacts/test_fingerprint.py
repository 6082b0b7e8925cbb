from pathlib import Path

import pytest

from agentic_r.artifacts.fingerprint import (
    fingerprint_files,
    fingerprint_strings,
    fingerprint_text,
    fingerprint_value,
    generator_seed,
)


def test_the_order_of_keys_does_not_count_and_that_of_lists_does() -> None:
    assert fingerprint_value({"a": 1, "b": [1, 2]}) == fingerprint_value({"b": [1, 2], "a": 1})
    assert fingerprint_value([1, 2]) != fingerprint_value([2, 1])


def test_a_value_without_a_json_form_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        fingerprint_value({"a", "b"})


def test_the_borders_of_strings_count() -> None:
    assert fingerprint_strings(["ab", "c"]) != fingerprint_strings(["a", "bc"])
    assert fingerprint_strings([]) != fingerprint_strings([""])


def test_the_same_text_in_another_form_has_one_fingerprint() -> None:
    assert fingerprint_text("Text A.") == fingerprint_text(" text \n a.") == fingerprint_text("ＴＥＸＴ A.")
    assert fingerprint_text("Text A.") != fingerprint_text("Text B.")


def test_half_a_surrogate_pair_has_a_fingerprint_and_a_seed() -> None:
    assert fingerprint_value("\ud83d") != fingerprint_value("?")
    assert fingerprint_strings(["\ud83d"]) != fingerprint_strings(["?"])
    assert generator_seed(0, "\ud83d") != generator_seed(0, "?")


def test_files_count_by_name_and_bytes_and_not_by_folder(tmp_path: Path) -> None:
    for folder, name, text in (("1", "a", "x"), ("2", "a", "x"), ("3", "a", "y"), ("4", "b", "x")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    same, again, other_bytes, other_name = (fingerprint_files((tmp_path / key).iterdir()) for key in "1234")
    assert same == again
    assert len({same, other_bytes, other_name}) == 3


def test_a_seed_depends_on_each_part_and_fits_into_63_bits() -> None:
    seeds = {
        generator_seed(*parts) for parts in ((0,), (1,), (0, "a"), (0, "a", "b"), (0, "ab"), (0, 1), (0, "b", "a"))
    }
    assert len(seeds) == 7
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert generator_seed(0, 1) == generator_seed(0, "1")  # ids may be numbers or strings
