"""What is said about names that collide lets a person tell them apart, and is never long."""

import pytest

from nearline.content.paths import Collision, collision_details, describe_collisions


def fold(*names):
    return Collision(tuple(name.encode() for name in names), "fold")


def test_names_that_differ_in_case_are_written_as_they_are():
    assert describe_collisions([fold("\u00c9t\u00e9", "\u00e9t\u00e9")]) == (
        "'\u00c9t\u00e9' and '\u00e9t\u00e9' differ only in case or Unicode form."
    )


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("cafe\u0301", "caf\u00e9"), r"'cafe\u0301' and 'caf\u00e9'"),
        (("K", "\u212a"), r"'K' and '\u212a'"),
        (("\u00b5m", "\u03bcm"), r"'\u00b5m' and '\u03bcm'"),
        (("A\u200b", "a\u200b"), r"'A\u200b' and 'a\u200b'"),
        (("A\U0001f600\n", "a\U0001f600\n"), r"'A\U0001f600\u000a' and 'a\U0001f600\u000a'"),
    ],
)
def test_names_that_look_alike_are_written_with_escapes(names, shown):
    assert describe_collisions([fold(*names)]) == f"{shown} differ only in case or Unicode form."


def test_a_file_that_is_needed_as_a_folder_is_said_to_be_one():
    clash = Collision((b"a", b"a/b"), "clash")

    assert describe_collisions([clash]) == "'a' and 'a/b' need one name as a file and a folder."


def test_all_groups_are_told_in_one_sentence_for_each_kind():
    clash = Collision((b"c", b"c/d"), "clash")

    assert describe_collisions([fold("A", "a"), clash, fold("B", "b")]) == (
        "'c' and 'c/d' need one name as a file and a folder. "
        "2 groups of names differ only in case or Unicode form: 'A' and 'a'; 'B' and 'b'."
    )


def test_of_very_many_the_first_twenty_and_the_number_of_all_are_told():
    many = [fold(f"A{number}", f"a{number}") for number in range(1_500)]

    text = describe_collisions(many)
    details = collision_details(many)

    assert text.startswith("1,500 groups of names differ only in case or Unicode form: 'A0' and 'a0'; 'A1'")
    assert text.endswith("; 'A19' and 'a19'; and 1,480 more.")
    assert details["groups"] == [[f"A{number}", f"a{number}"] for number in range(20)]
    assert details["total"] == 1_500


def test_a_search_that_ended_early_says_so():
    text = describe_collisions([fold("A", "a"), fold("B", "b")], is_complete=False)

    assert text == "At least 2 groups of names differ only in case or Unicode form: 'A' and 'a'; 'B' and 'b'."


def test_of_a_large_group_the_first_twenty_names_are_told():
    group = fold(*(f"{number:08b}".replace("0", "a").replace("1", "A") for number in range(30)))

    assert describe_collisions([group]).endswith(" and 10 more differ only in case or Unicode form.")
