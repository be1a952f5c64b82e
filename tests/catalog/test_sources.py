"""The cache: what enters was checked, what is there is used offline, and nothing half-done stays."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from refactorbench.catalog.models import StateASource
from refactorbench.catalog.sources import archive_path, debian, fetch_state_a, tree_path
from refactorbench.catalog.sources.cache import keep_archive, scratch, unpack
from refactorbench.errors import HarnessError, TaskError
from refactorbench.hashing import sha256_file, tree_digest


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
    info.pax_headers["comment"] = data.decode()  # carried along for `pack`
    return info


def pack(path: Path, members: list[tarfile.TarInfo], mode: str = "w:gz") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for info in members:
            data = info.pax_headers.pop("comment", "").encode()
            tar.addfile(info, io.BytesIO(data))
    return path


def toy(path: Path, mode: str = "w:gz") -> Path:
    return pack(
        path,
        [
            member("toy-1.0", kind=tarfile.DIRTYPE, mode=0o700),
            member("toy-1.0/configure", b"#!/bin/sh\n", mode=0o4755),
            member("toy-1.0/src/main.c", b"int main;\n", mode=0o664),
            member("toy-1.0/empty", kind=tarfile.DIRTYPE, mode=0o000),
            member("toy-1.0/link", kind=tarfile.SYMTYPE, link="src/main.c"),
            member("toy-1.0/src/up", kind=tarfile.SYMTYPE, link="../configure"),
            member("toy-1.0/hard", kind=tarfile.LNKTYPE, link="toy-1.0/src/main.c"),
        ],
        mode,
    )


@pytest.fixture
def source(tmp_path: Path) -> StateASource:
    archive = toy(tmp_path / "upstream" / "toy_1.0.orig.tar.gz")
    unpack(archive, tmp_path / "expected", 1)
    tree = tree_digest(tmp_path / "expected")
    return StateASource("debian-source", "toy", "1.0-1", "bookworm", archive.name, sha256_file(archive), tree)


@pytest.fixture
def fetched(source: StateASource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for the network: delivers the archive and keeps count."""
    calls: list[str] = []

    def fetch_archive(wanted: StateASource, cache: Path, progress: Callable[[str], None]) -> Path:
        calls.append(wanted.package)
        copy = cache / "download"
        copy.write_bytes((tmp_path / "upstream" / wanted.archive).read_bytes())
        return keep_archive(wanted, cache, copy)

    monkeypatch.setattr(debian, "fetch_archive", fetch_archive)
    return calls


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2", "w"])
def test_unpacking_gives_the_same_tree_from_any_compression(tmp_path: Path, mode: str) -> None:
    unpack(toy(tmp_path / "a.tar", mode), tmp_path / "tree", 1)
    tree = tmp_path / "tree"
    found = [p for p in tree.rglob("*") if not p.is_symlink()]
    assert {p.relative_to(tree).as_posix(): p.lstat().st_mode & 0o7777 for p in found} == {
        "configure": 0o755, "src": 0o755, "src/main.c": 0o644, "empty": 0o755, "hard": 0o644,
    }  # fmt: skip
    assert (tree / "link").readlink() == Path("src/main.c")
    assert (tree / "src" / "up").read_bytes() == b"#!/bin/sh\n"
    assert (tree / "hard").stat().st_ino != (tree / "src" / "main.c").stat().st_ino


@pytest.mark.parametrize("strip", [0, 2])
def test_strip_drops_so_many_folders(tmp_path: Path, strip: int) -> None:
    archive = pack(tmp_path / "a.tar.gz", [member("a/b/c", b"x"), member("a/d", b"y")])
    unpack(archive, tmp_path / "tree", strip)
    files = {p.relative_to(tmp_path / "tree").as_posix() for p in (tmp_path / "tree").rglob("*") if p.is_file()}
    assert files == ({"a/b/c", "a/d"} if strip == 0 else {"c"})


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/x", b"x"),
        member("toy/../../x", b"x"),
        member("toy/l", kind=tarfile.SYMTYPE, link="/etc/passwd"),
        member("toy/l", kind=tarfile.SYMTYPE, link="../x"),
        member("toy/d/l", kind=tarfile.SYMTYPE, link="../../x"),
        member("toy/d/l", kind=tarfile.SYMTYPE, link="a/../../../x"),
        member("toy/h", kind=tarfile.LNKTYPE, link="toy/none"),
        member("toy/h", kind=tarfile.LNKTYPE, link="../../etc/passwd"),
        member("toy/f", kind=tarfile.FIFOTYPE),
        member("toy/c", kind=tarfile.CHRTYPE),
    ],
    ids=lambda m: f"{m.name}->{m.linkname}" if m.linkname else m.name,
)
def test_what_leads_outside_or_is_no_file_is_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    archive = pack(tmp_path / "a" / "x.tar.gz", [member("toy/good", b"g"), bad])
    with pytest.raises(TaskError, match=r"x\.tar\.gz"):
        unpack(archive, tmp_path / "in" / "tree", 1)
    assert not (tmp_path / "in" / "x").exists() and not (tmp_path / "x").exists()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    archive = pack(
        tmp_path / "x.tar.gz",
        [member("toy/d", kind=tarfile.SYMTYPE, link="real"), member("toy/real/f", b"1"), member("toy/d/f", b"2")],
    )
    with pytest.raises(TaskError, match="two members claim"):
        unpack(archive, tmp_path / "tree", 1)
    assert (tmp_path / "tree" / "real" / "f").read_bytes() == b"1"


@pytest.mark.parametrize("raw", [b"", b"no archive", b"\x1f\x8b\x08\x00garbage"])
def test_what_is_no_archive_is_named(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x.tar.gz").write_bytes(raw)
    with pytest.raises(TaskError, match=r"x\.tar\.gz is not a tar archive"):
        unpack(tmp_path / "x.tar.gz", tmp_path / "tree", 1)


def test_a_truncated_archive_is_named(tmp_path: Path) -> None:
    archive = toy(tmp_path / "x.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(TaskError, match=r"x\.tar\.gz is not a tar archive"):
        unpack(archive, tmp_path / "tree", 1)


def test_first_fetch_then_offline(source: StateASource, fetched: list[str], tmp_path: Path) -> None:
    said: list[str] = []
    tree = fetch_state_a(source, tmp_path / "cache", said.append)
    assert tree == tree_path(source, tmp_path / "cache") and tree_digest(tree) == source.tree_sha256
    assert archive_path(source, tmp_path / "cache").is_file()
    assert fetch_state_a(source, tmp_path / "cache", said.append) == tree
    assert fetched == ["toy"] and said == ["unpacking toy_1.0.orig.tar.gz"]
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


def test_an_archive_put_there_by_hand_needs_no_network(
    source: StateASource, fetched: list[str], tmp_path: Path
) -> None:
    place = archive_path(source, tmp_path / "cache")
    place.parent.mkdir(parents=True)
    place.write_bytes((tmp_path / "upstream" / source.archive).read_bytes())
    assert tree_digest(fetch_state_a(source, tmp_path / "cache", print)) == source.tree_sha256
    assert fetched == []


def test_a_wrong_archive_put_there_by_hand_is_refused(source: StateASource, fetched: list[str], tmp_path: Path) -> None:
    place = archive_path(source, tmp_path / "cache")
    place.parent.mkdir(parents=True)
    place.write_bytes(b"something else")
    with pytest.raises(HarnessError, match=r"is damaged: sha256 .*delete it to fetch it anew"):
        fetch_state_a(source, tmp_path / "cache", print)
    assert fetched == []


def test_a_delivered_archive_with_another_digest_is_not_kept(
    source: StateASource, fetched: list[str], tmp_path: Path
) -> None:
    (tmp_path / "upstream" / source.archive).write_bytes(b"tampered")
    with pytest.raises(HarnessError) as e:
        fetch_state_a(source, tmp_path / "cache", print)
    for part in ("toy", "1.0-1", "bookworm", source.sha256, str(archive_path(source, tmp_path / "cache"))):
        assert part in str(e.value)
    assert not archive_path(source, tmp_path / "cache").exists()


def test_another_tree_than_the_recorded_one_is_the_tasks_fault(
    source: StateASource, fetched: list[str], tmp_path: Path
) -> None:
    other = msgspec.structs.replace(source, tree_sha256=hashlib.sha256(b"").hexdigest())
    with pytest.raises(TaskError, match=f"digest {source.tree_sha256}, but tree_sha256 is {other.tree_sha256}"):
        fetch_state_a(other, tmp_path / "cache", print)
    assert not tree_path(other, tmp_path / "cache").exists()


def test_a_damaged_tree_is_unpacked_anew(source: StateASource, fetched: list[str], tmp_path: Path) -> None:
    tree = fetch_state_a(source, tmp_path / "cache", print)
    (tree / "configure").write_bytes(b"edited")
    assert tree_digest(fetch_state_a(source, tmp_path / "cache", print)) == source.tree_sha256
    assert fetched == ["toy"]


def test_asking_at_once_fetches_once(source: StateASource, fetched: list[str], tmp_path: Path) -> None:
    found: list[Path] = []
    start = threading.Barrier(6)

    def ask() -> None:
        start.wait()
        found.append(fetch_state_a(source, tmp_path / "cache", lambda line: None))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [tree_path(source, tmp_path / "cache")] * 6
    assert fetched == ["toy"]


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    (tmp_path / "tmp" / "apt-left").mkdir(parents=True)
    with scratch(tmp_path, "first") as first:
        with scratch(tmp_path, "second") as second:
            assert sorted((tmp_path / "tmp").iterdir()) == sorted([first, second])
        assert list((tmp_path / "tmp").iterdir()) == [first]
    assert list((tmp_path / "tmp").iterdir()) == []
