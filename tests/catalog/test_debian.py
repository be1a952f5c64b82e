"""State A through the machine's apt client, which a scripted one stands in for."""

import hashlib
import os
from pathlib import Path

import pytest

from refactorbench.catalog.models import StateASource
from refactorbench.catalog.sources import archive_path, debian, fetch_state_a
from refactorbench.catalog.sources.debian import (
    Entry,
    fetch_archive,
    main_archive,
    parse_deb822,
    parse_one_line,
    stanza,
)
from refactorbench.errors import HarnessError, ToolMissing

ARCHIVE = b"the orig archive"
SOURCE = StateASource(
    "debian-source", "toy", "1.0-1", "trixie", "toy_1.0.orig.tar.gz", hashlib.sha256(ARCHIVE).hexdigest(), "0" * 64
)
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEB822 = f"""\
# the archive
Types: deb
URIs: http://mirror.invalid/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: {KEYRING}

Types: deb
URIs: http://mirror.invalid/debian-security
Suites: bookworm-security
Components: main
Signed-By: {KEYRING}
"""

APT_GET = """\
#!/bin/sh
echo "$0 $*" >> "$FAKE/log"
while [ $# -gt 0 ] && [ "$1" != update ] && [ "$1" != source ]; do [ "$1" = -c ] && conf=$2; shift; done
folder=${conf%/*}
if [ "$1" = update ]; then
    cat "$folder/sources.list.d/private.sources" "$conf" > "$FAKE/seen"
    if [ -e "$FAKE/no-key" ] && ! grep -q '^Trusted: yes' "$folder/sources.list.d/private.sources"; then
        echo 'W: GPG error: x: The following signatures could not be verified: NO_PUBKEY 0123'
        echo "E: The repository 'x' is not signed."
        exit 100
    fi
    [ -e "$FAKE/offline" ] && { echo 'W: Failed to fetch x  Could not resolve host'; exit 0; }
    : > "$folder/lists/index"
    exit 0
fi
[ -e "$folder/lists/index" ] || { echo "E: You must put some 'deb-src' URIs in your sources.list"; exit 100; }
cat "$FAKE/uris"
"""
APT_HELPER = """\
#!/bin/sh
echo "$0 $*" >> "$FAKE/log"
[ -e "$FAKE/404" ] && { echo 'Err:1 x'; echo 'E: Failed to fetch x  404  Not Found'; exit 100; }
cp "$FAKE/archive" "$5"
"""
URIS = (
    "Reading package lists...\nNeed to get 3 kB of source archives.\n"
    "'http://m.invalid/toy_1.0-1.dsc' toy_1.0-1.dsc 3 SHA256:aa\n"
    "'http://m.invalid/toy_1.0.orig-www.tar.gz' toy_1.0.orig-www.tar.gz 3 SHA256:cc\n"
    "'http://m.invalid/toy_1.0%2b.orig.tar.gz' toy_1.0.orig.tar.gz 3 SHA256:bb\n"
)


@pytest.fixture
def fake(path_without: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that steers the scripted apt; `log` in it holds its calls."""
    for name, text in (("apt-get", APT_GET), ("apt-helper", APT_HELPER)):
        (path_without / name).write_text(text)
        (path_without / name).chmod(0o755)
    folder = tmp_path / "fake"
    (tmp_path / "etc" / "sources.list.d").mkdir(parents=True)
    (tmp_path / "etc" / "sources.list.d" / "debian.sources").write_text(DEB822)
    (tmp_path / "os-release").write_text('NAME="Debian"\nVERSION_CODENAME=bookworm\n')
    monkeypatch.setattr(debian, "ETC", tmp_path / "etc")
    monkeypatch.setattr(debian, "OS_RELEASE", tmp_path / "os-release")
    monkeypatch.setenv("FAKE", str(folder))
    folder.mkdir()
    (folder / "uris").write_text(URIS)
    (folder / "archive").write_bytes(ARCHIVE)
    return folder


def log(fake: Path) -> list[str]:
    """The calls without `-c FILE` and without the programs' folder."""
    calls = [line.split(" ", 3) for line in (fake / "log").read_text().splitlines()]
    return [f"{Path(program).name} {rest}" for program, _, _, rest in calls]


def test_only_the_orig_archive_is_asked_for(fake: Path, tmp_path: Path) -> None:
    said: list[str] = []
    cache = tmp_path / "cache"
    assert fetch_archive(SOURCE, cache, said.append) == archive_path(SOURCE, cache)
    assert archive_path(SOURCE, cache).read_bytes() == ARCHIVE
    update, source, download = log(fake)
    assert (update, source) == ("apt-get update", "apt-get source --print-uris --only-source toy=1.0-1")
    assert download.startswith("apt-helper download-file http://m.invalid/toy_1.0%2b.orig.tar.gz ")
    assert download.endswith(f" SHA256:{SOURCE.sha256}")
    assert said == ["reading the package index of trixie", "fetching toy_1.0.orig.tar.gz"]
    assert list((cache / "tmp").iterdir()) == []


def test_the_private_configuration_names_the_wanted_suite_of_the_main_archive(fake: Path, tmp_path: Path) -> None:
    fetch_archive(SOURCE, tmp_path / "cache", print)
    seen = (fake / "seen").read_text()
    assert seen.startswith(
        "Types: deb-src\nURIs: http://mirror.invalid/debian\nSuites: trixie\nComponents: main\n"
        f"Signed-By: {KEYRING}\n\n"
    )
    assert "debian-security" not in seen and "Trusted" not in seen
    for key in ("Dir::State::lists", "Dir::Cache", "Dir::Etc::sourcelist", "Dir::Etc::sourceparts"):
        assert f'{key} "{tmp_path}/cache/tmp/apt-' in seen
    assert "#clear APT::Update::Post-Invoke;" in seen


def test_a_suite_whose_key_is_unknown_is_read_unverified_once(fake: Path, tmp_path: Path) -> None:
    (fake / "no-key").touch()
    assert fetch_archive(SOURCE, tmp_path / "cache", print).read_bytes() == ARCHIVE
    assert [line.split()[1] for line in log(fake)] == ["update", "source", "update", "source", "download-file"]
    assert "Trusted: yes" in (fake / "seen").read_text() and "Signed-By" not in (fake / "seen").read_text()


def test_an_unverified_index_cannot_bring_in_another_archive(fake: Path, tmp_path: Path) -> None:
    (fake / "no-key").touch()
    (fake / "archive").write_bytes(b"something else")
    with pytest.raises(HarnessError, match="not used"):
        fetch_archive(SOURCE, tmp_path / "cache", print)
    assert not archive_path(SOURCE, tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("steer", "reason"),
    [
        ("gone", "not offered by this machine's Debian mirror (a mirror keeps the newest version of a suite)"),
        ("offline", "Could not resolve host"),
        ("404", "404  Not Found"),
    ],
)
def test_a_failure_says_what_was_wanted_and_the_way_out(fake: Path, tmp_path: Path, steer: str, reason: str) -> None:
    if steer == "gone":
        (fake / "uris").write_text("E: Unable to find a source package for toy\n")
    else:
        (fake / steer).touch()
    cache = tmp_path / "cache"
    with pytest.raises(HarnessError) as e:
        fetch_archive(SOURCE, cache, print)
    place = str(archive_path(SOURCE, cache))
    for part in (reason, "toy", "1.0-1", "trixie", SOURCE.sha256, place, "is used as well"):
        assert part in str(e.value)
    assert not archive_path(SOURCE, cache).exists() and list((cache / "tmp").iterdir()) == []


def test_no_entry_of_the_archive(fake: Path, tmp_path: Path) -> None:
    (tmp_path / "etc" / "sources.list.d" / "debian.sources").unlink()
    with pytest.raises(HarnessError, match="no entry of the main Debian archive"):
        fetch_archive(SOURCE, tmp_path / "cache", print)


def test_no_apt(fake: Path, path_without: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path_without / "apt-get").unlink()
    monkeypatch.setattr(debian, "APT_GET", "/nowhere/apt-get")
    with pytest.raises(ToolMissing, match="apt-get is not installed"):
        fetch_archive(SOURCE, tmp_path / "cache", print)


def test_one_line_entries() -> None:
    text = (
        "# deb http://off.invalid/debian bookworm main\n"
        "deb http://a.invalid/debian bookworm main contrib # mine\n"
        "  deb-src [arch=amd64 signed-by=/k.gpg trusted=yes] http://b.invalid/debian/ bookworm main\n"
        "deb cdrom:[Debian 12]/ bookworm main\n"
    )
    assert parse_one_line(text)[:2] == [
        Entry(("http://a.invalid/debian",), ("bookworm",), ("main", "contrib"), {}),
        Entry(("http://b.invalid/debian/",), ("bookworm",), ("main",), {"signed-by": "/k.gpg", "trusted": "yes"}),
    ]
    assert [e.uris for e in main_archive(parse_one_line(text), "bookworm")] == [
        ("http://a.invalid/debian",),
        ("http://b.invalid/debian/",),
    ]


def test_deb822_entries_keep_an_inline_key_and_skip_disabled_ones() -> None:
    key = "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----"
    text = (
        f"{DEB822}\nEnabled: no\nTypes: deb\nURIs: http://off.invalid/debian\nSuites: bookworm\nComponents: main\n\n"
        f"Types: deb\nURIs: http://a.invalid/debian\n http://b.invalid/debian\nSuites: bookworm\nComponents: main\n"
        f"Signed-By:{key}\n"
    )
    entries = parse_deb822(text)
    assert [e.suites for e in entries] == [("bookworm", "bookworm-updates"), ("bookworm-security",), ("bookworm",)]
    assert entries[2].uris == ("http://a.invalid/debian", "http://b.invalid/debian")
    assert stanza(entries[2], "sid", False).endswith(f"Suites: sid\nComponents: main\nSigned-By: {key}\n\n")
    assert "Signed-By" not in stanza(entries[2], "sid", True)


def entry(uri: str, suite: str = "bookworm", component: str = "main", key: str = "") -> Entry:
    return Entry((uri,), (suite,), (component,), {"signed-by": key} if key else {})


DEBIAN = entry("http://mirror.invalid/debian")


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        (entry("http://apps.invalid/deb", key="/usr/share/keyrings/apps.gpg"), [DEBIAN]),  # a third party's main
        (entry("http://mirror.invalid/debian-security", "bookworm-security"), [DEBIAN]),
        (entry("http://mirror.invalid/debian", component="contrib"), [DEBIAN]),
        (entry("http://mirror.invalid/debian", "bookworm-backports"), [DEBIAN]),
        (entry("cdrom:[Debian]/"), [DEBIAN]),
        (entry("http://cache.invalid/deb12/", key=KEYRING), None),  # another name, Debian's own keys
        (entry("http://mirror.invalid/debian", "stable"), None),
    ],
)
def test_third_parties_are_told_from_the_archive(other: Entry, kept: list[Entry] | None) -> None:
    assert main_archive([other, DEBIAN], "bookworm") == (kept if kept is not None else [other, DEBIAN])


def test_an_archive_that_nothing_tells_apart_is_tried() -> None:
    only = entry("http://cache.invalid/pool12")
    assert main_archive([only], "bookworm") == [only]


@pytest.mark.skipif(not os.environ.get("REFACTORBENCH_TEST_NETWORK"), reason="set REFACTORBENCH_TEST_NETWORK=1")
def test_the_real_archive_delivers_bzip2(tmp_path: Path) -> None:
    bzip2 = StateASource(
        "debian-source", "bzip2", "1.0.8-5", "bookworm", "bzip2_1.0.8.orig.tar.gz",
        "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
        "b72c030a340964d126b762ce83a26818587bac8c7d35046c389488e2799ddbaa",
    )  # fmt: skip
    assert (fetch_state_a(bzip2, tmp_path, print) / "bzlib.h").is_file()
