import msgspec
import pytest

from refactorbench.observe.compare import compare, differences, signature
from refactorbench.observe.model import NOW, Observation, OutputFile

FILE = OutputFile(b"a.bz2", "file", 0o644, 1_000_000_000, b"data")
LINK = OutputFile(b"l", "link", 0o777, NOW, target=b"a.bz2")
BASE = Observation("exit", 0, b"out\n", b"err\n", (FILE, LINK))


def change(o: Observation = BASE, **fields: object) -> Observation:
    return msgspec.structs.replace(o, **fields)


def change_file(**fields: object) -> Observation:
    return change(files=(msgspec.structs.replace(FILE, **fields), LINK))


ONE_DIMENSION = {
    ("ended", "changed"): change(ended="signal", code=11),
    ("code", "changed"): change(code=1),
    ("limit", "changed"): change(limit="wall"),
    ("stdout", "changed"): change(stdout=b"out"),
    ("stderr", "changed"): change(stderr=b"err \n"),
    ("file", "missing"): change(files=(FILE,)),
    ("file", "extra"): change(files=(FILE, LINK, OutputFile(b"z", "dir", 0o755, NOW))),
    ("file", "kind"): change_file(kind="fifo"),
    ("file", "mode"): change_file(mode=0o600),
    ("file", "mtime"): change_file(mtime=NOW),
    ("file", "data"): change_file(data=b"datA"),
    ("file", "target"): change(files=(FILE, msgspec.structs.replace(LINK, target=b"b"))),
}


@pytest.mark.parametrize(("where", "got"), ONE_DIMENSION.items(), ids=lambda v: ":".join(v) if type(v) is tuple else "")
def test_every_dimension_is_compared_alone(where: tuple[str, str], got: Observation) -> None:
    assert [(d.dimension, d.kind) for d in differences(BASE, got)] == [where]
    assert [(d.dimension) for d in differences(got, BASE)] == [where[0]]


def test_equal_observations_differ_in_nothing_and_time_taken_is_not_compared() -> None:
    assert differences(BASE, change(wall_ms=99)) == ()
    assert signature(()) == ""
    assert compare(BASE, BASE, ("mtime-any",)).forgiven == {"mtime-any": 0}


def test_each_dimension_has_its_own_signature() -> None:
    signatures = {signature(differences(BASE, got)) for got in ONE_DIMENSION.values()}
    assert len(signatures) == len(ONE_DIMENSION) and "" not in signatures


def test_a_signature_ignores_names_numbers_and_literal_output() -> None:
    def failing(name: bytes, number: bytes, data: bytes) -> str:
        wanted = change(stderr=b"", files=(msgspec.structs.replace(FILE, path=name + b".bz2"),))
        message = b"bzip2: can't open '" + name + b"' at " + number + b"\n"
        got = change(code=1, stderr=message, files=(msgspec.structs.replace(FILE, path=name + b".bz2", data=data),))
        return signature(differences(wanted, got))

    assert failing(b"one", b"12", b"xx") == failing(b"other", b"7", b"yyyy")
    assert failing(b"one", b"12", b"xx") != failing(b"one", b"12", b"dat")  # truncated is another defect than changed


def test_a_signature_tells_messages_apart() -> None:
    one = signature(differences(BASE, change(stderr=b"no such file\n")))
    assert one != signature(differences(BASE, change(stderr=b"permission denied\n")))


def test_a_signature_is_bounded_and_still_tells_many_files_apart() -> None:
    def many(last: bytes) -> str:
        names = [b"f." + bytes([97 + i, 97 + j]) for i in range(26) for j in range(26)] + [last]
        return signature(differences(BASE, change(files=tuple(OutputFile(n, "file", 0o644, NOW) for n in names))))

    assert len(many(b"f.zzz")) < 1000
    assert many(b"f.zzz") != many(b"f.zzy")
