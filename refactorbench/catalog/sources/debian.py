"""State A from a Debian source package: the machine's own apt client, with a private configuration.

The machine's entries for the main Debian archive are read (one-line `.list` and `.sources` files), restated as source
entries for the suite that the task names, and used from a throwaway folder: nothing of the machine's own apt state is
read or written, no privileges are needed and no mirror is named here. Mirrors are partial (packaging files are missing
more often than the upstream archive), so only the orig archive is asked for, and it counts by its sha256.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from refactorbench.catalog.models import StateASource
from refactorbench.catalog.sources.cache import Progress, by_hand, keep_archive, scratch
from refactorbench.errors import HarnessError, ToolMissing

ETC, OS_RELEASE = Path("/etc/apt"), Path("/etc/os-release")
APT_GET, APT_HELPER = "/usr/bin/apt-get", "/usr/lib/apt/apt-helper"  # where they are when PATH doesn't say
APT_TIMEOUT_S = 1800
KEPT_OPTIONS = ("signed-by", "trusted", "check-valid-until", "check-date", "allow-weak")


class Entry(msgspec.Struct, frozen=True):
    """One archive of the machine's: `options` are deb822 fields to keep, by lower-case name."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: Mapping[str, str] = {}


def parse_one_line(text: str) -> list[Entry]:
    """Entries of a one-line-style file; comments and lines that aren't entries are skipped."""
    entries = []
    for line in text.splitlines():
        match = re.match(r"^\s*deb(?:-src)?\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if not match:
            continue
        options = dict(pair.split("=", 1) for pair in (match[1] or "").split() if "=" in pair)
        kept = {k.lower(): v for k, v in options.items() if k.lower() in KEPT_OPTIONS}
        entries.append(Entry((match[2],), (match[3],), tuple(match[4].split()), kept))
    return entries


def parse_deb822(text: str) -> list[Entry]:
    """Entries of a `.sources` file; disabled stanzas are skipped."""
    entries = []
    without_comments = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", without_comments):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1] in (" ", "\t"):
                fields[name] = f"{fields.get(name, '')}\n{line}"
            elif ":" in line:
                name, value = line.split(":", 1)
                name = name.strip().lower()
                fields[name] = value.strip()
        if "uris" not in fields or fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        kept = {k: v for k, v in fields.items() if k in KEPT_OPTIONS}
        uris, suites, components = (tuple(fields.get(k, "").split()) for k in ("uris", "suites", "components"))
        entries.append(Entry(uris, suites, components, kept))
    return entries


def machine_entries(etc: Path) -> list[Entry]:
    """All entries of the apt configuration folder `etc` (normally /etc/apt)."""
    entries: list[Entry] = []
    parts = etc / "sources.list.d"
    files = [etc / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else ())]
    for file in files:
        if file.is_file() and file.suffix in (".list", ".sources"):
            text = file.read_text(errors="replace")
            entries += parse_deb822(text) if file.suffix == ".sources" else parse_one_line(text)
    return entries


def main_archive(entries: Iterable[Entry], release: str) -> list[Entry]:
    """The entries that are the main Debian archive for `release`.

    Third parties name suites and components the same way; what tells is the archive's keyring or a path ending in
    /debian. Where nothing tells, all candidates are kept: what is downloaded counts by its digest only.
    """
    names = {release, "stable", "oldstable", "testing", "unstable"}
    candidates = [
        e
        for e in entries
        if names.intersection(s.strip("/") for s in e.suites)
        and "main" in e.components
        and not all(u.startswith("cdrom:") for u in e.uris)
    ]
    telling = [
        e
        for e in candidates
        if "debian-archive" in e.options.get("signed-by", "") or any(u.rstrip("/").endswith("/debian") for u in e.uris)
    ]
    return telling or candidates


def stanza(entry: Entry, suite: str, trusted: bool) -> str:
    """`entry` as a deb822 source entry for `suite`; `trusted` leaves the signature unchecked."""
    fields = {"Types": "deb-src", "URIs": " ".join(entry.uris), "Suites": suite, "Components": "main"}
    fields |= {k.title(): v for k, v in entry.options.items()}
    if trusted:
        fields.pop("Signed-By", None)
        fields["Trusted"] = "yes"
    return "".join(f"{k}: {v}\n" for k, v in fields.items()) + "\n"


def running_release(os_release: Path) -> str:
    """The running Debian release's code name, "" when the file doesn't say."""
    try:
        lines = os_release.read_text().splitlines()
    except OSError:
        return ""
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    return "".join(shlex.split(values.get("VERSION_CODENAME", ""))[:1])


class Apt:
    """The apt client over a private state in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries = main_archive(machine_entries(ETC), running_release(OS_RELEASE))
        self.get = _program("apt-get", APT_GET)
        self.helper = _program("apt-helper", APT_HELPER)

    def configure(self, suite: str, trusted: bool) -> None:
        for name in ("lists/partial", "cache/archives/partial", "sources.list.d", "preferences.d"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        text = "".join(stanza(e, suite, trusted) for e in self.entries)
        (self.folder / "sources.list.d" / "private.sources").write_text(text)
        (self.folder / "sources.list").write_text("")
        # The hooks are cleared because distributions use them to tidy the machine's own apt cache.
        (self.folder / "apt.conf").write_text(
            f'Dir::State::lists "{self.folder}/lists";\n'
            f'Dir::Cache "{self.folder}/cache";\n'
            f'Dir::Etc::sourcelist "{self.folder}/sources.list";\n'
            f'Dir::Etc::sourceparts "{self.folder}/sources.list.d";\n'
            f'Dir::Etc::preferences "{self.folder}/preferences";\n'
            f'Dir::Etc::preferencesparts "{self.folder}/preferences.d";\n'
            'APT::Sandbox::User "root";\n'
            'Acquire::Languages "none";\nAcquire::Retries "3";\nAcquire::PDiffs "false";\n'
            "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n"
            "#clear APT::Update::Post-Invoke-Success;\n"
        )

    def run(self, program: str, *args: str) -> tuple[int, str]:
        """Return (exit status, output and messages together)."""
        argv = [program, "-c", str(self.folder / "apt.conf"), *args]
        try:
            done = subprocess.run(
                argv, cwd=self.folder, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=APT_TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return 124, f"{Path(program).name} {args[0]} did not end within {APT_TIMEOUT_S} s"
        return done.returncode, done.stdout.decode(errors="replace")

    def locate(self, source: StateASource) -> tuple[str, str]:
        """Return (URI of the pinned archive or "", what apt said)."""
        wanted = f"{source.package}={source.version}"
        _, said = self.run(self.get, "source", "--print-uris", "--only-source", wanted)
        for uri, name in re.findall(r"^'([^']+)' (\S+) \d+ \S+$", said, re.MULTILINE):
            if name == source.archive:
                return uri, said
        return "", said


def _program(name: str, usual: str) -> str:
    found = shutil.which(name) or (usual if Path(usual).exists() else "")
    if not found:
        raise ToolMissing(
            f"{name} is not installed, so a Debian source package can't be fetched: use a Debian machine, "
            "or place the archive in the cache by hand (`refactorbench task fetch` says where)"
        )
    return found


def fetch_archive(source: StateASource, cache: Path, progress: Progress) -> Path:
    """Download `source`'s orig archive into the cache and return it; HarnessError says what to do instead."""
    what = f"{source.package} {source.version} ({source.suite})"
    with scratch(cache, "apt") as folder:
        apt = Apt(folder)
        if not apt.entries:
            raise HarnessError(
                f"no entry of the main Debian archive in this machine's apt sources: cannot fetch {what}. "
                f"{by_hand(source, cache)}"
            )
        apt.configure(source.suite, trusted=False)
        progress(f"reading the package index of {source.suite}")
        _, updated = apt.run(apt.get, "update")
        uri, said = apt.locate(source)
        if not uri and re.search(r"NO_PUBKEY|not signed|couldn't be verified", updated):
            # An older release's keyring can't verify a newer suite's index. The index only leads to the archive,
            # whose sha256 the task pins, and this configuration is used for nothing else.
            apt.configure(source.suite, trusted=True)
            _, updated = apt.run(apt.get, "update")
            uri, said = apt.locate(source)
        if not uri:
            reason = _last_words(updated) if "E: Unable to find a source package" not in said else ""
            raise HarnessError(
                f"{source.archive} of {what} is not offered by this machine's Debian mirror"
                f"{': ' + reason if reason else ' (a mirror keeps the newest version of a suite)'}. "
                f"{by_hand(source, cache)}"
            )
        progress(f"fetching {source.archive}")
        file = folder / "download"
        status, said = apt.run(apt.helper, "download-file", uri, str(file), f"SHA256:{source.sha256}")
        if status or not file.is_file():
            raise HarnessError(
                f"{source.archive} of {what} could not be fetched: {_last_words(said)}. {by_hand(source, cache)}"
            )
        return keep_archive(source, cache, file)


def _last_words(said: str) -> str:
    """apt's own errors, else its warnings, on one line."""
    lines = said.splitlines()
    for mark in ("E: ", "W: ", "Err:"):
        found = [line.strip() for line in lines if line.startswith(mark)]
        if found:
            return "; ".join(found[:3]).rstrip(".")
    return lines[-1].strip() if lines else "apt said nothing"
