import pytest

from refactorbench.errors import TaskError
from refactorbench.observe.compare import compare
from refactorbench.observe.model import Observation, OutputFile
from refactorbench.observe.rules import RULES, apply


def seen(stdout: bytes = b"", stderr: bytes = b"", files: tuple[OutputFile, ...] = ()) -> Observation:
    return Observation("exit", 0, stdout, stderr, files)


FORGIVES = {
    "mtime-any": (
        seen(files=(OutputFile(b"f", "file", 0o644, 5, b"x"),)),
        seen(files=(OutputFile(b"f", "file", 0o644, 7, b"x"),)),
        seen(files=(OutputFile(b"f", "file", 0o600, 7, b"x"),)),
    ),
    "printed-addresses": (
        seen(stdout=b"at 0x7ffdeadbee00\n"),
        seen(stdout=b"at 0x7ffc12345600\n"),
        seen(stdout=b"in 0x7ffc12345600\n"),
    ),
    "stderr-line-order": (seen(stderr=b"a\nb\n"), seen(stderr=b"b\na\n"), seen(stderr=b"b\nb\n")),
}


def test_every_rule_is_tested_in_both_directions() -> None:
    assert FORGIVES.keys() == RULES.keys()


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_forgives_what_it_names_and_nothing_else(name: str) -> None:
    one, same, other = FORGIVES[name]
    assert compare(one, same).differences
    assert compare(one, same, (name,)).equal
    assert compare(one, same, (name,)).forgiven == {name: 1}
    assert not compare(one, other, (name,)).equal


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_is_documented_idempotent_and_counts_what_it_masks(name: str) -> None:
    assert RULES[name].__doc__
    for o in FORGIVES[name]:
        once, count = RULES[name](o)
        assert RULES[name](once)[0] == once
        assert (count > 0) == (once != o)


def test_short_hexadecimal_numbers_are_data_and_stay() -> None:
    assert not compare(seen(b"crc 0x12ab\n"), seen(b"crc 0x12ac\n"), ("printed-addresses",)).equal


def test_apply_runs_rules_in_order_and_counts_each() -> None:
    o, forgiven = apply(("stderr-line-order", "printed-addresses"), seen(b"0xabcdef", b"b\na\n0xabcdef01\n"))
    assert (o.stdout, o.stderr) == (b"0xADDRESS", b"0xADDRESS\na\nb\n")
    assert forgiven == {"stderr-line-order": 2, "printed-addresses": 2}


def test_an_unknown_rule_is_refused_with_a_suggestion() -> None:
    with pytest.raises(TaskError, match="did you mean 'mtime-any'"):
        apply(("mtime-ani",), seen())
    with pytest.raises(TaskError, match="use one of"):
        compare(seen(), seen(), ("zzz",))
