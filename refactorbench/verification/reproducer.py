"""A counterexample as a folder that needs only a POSIX shell and coreutils: `sh reproduce.sh PRODUCT_TREE`.

It lays the files, runs the program, prints what came out and says whether that is what the reference did: exit status
0 if so, 1 if not, 2 when it can't run. The program runs on the host, unconfined, which the script says.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

from refactorbench.errors import HarnessError
from refactorbench.observe.model import NOW, Check, Observation, seconds
from refactorbench.verification.model import Counterexample

BASE_ENV = {b"LC_ALL": b"C", b"TZ": b"UTC"}

_HEAD = b"""#!/bin/sh
# Usage: sh reproduce.sh PRODUCT_TREE
# Runs one input on the program of a product tree and compares with what the reference did.
# Exit status: 0 behaves as the reference, 1 differs, 2 cannot run. The program runs unconfined.
LC_ALL=C; export LC_ALL
umask 022
[ $# -eq 1 ] && [ -d "$1" ] || { echo "usage: sh reproduce.sh PRODUCT_TREE" >&2; exit 2; }
product=$(cd "$1" && pwd) || exit 2
here=$(cd "$(dirname "$0")" && pwd) || exit 2
"""

_SETUP = b"""[ -x "$product/$program" ] || { printf '%s has no program %s\\n' "$product" "$program" >&2; exit 2; }
top=$(mktemp -d) || exit 2
trap 'chmod -R u+rwx "$top" 2>/dev/null; rm -rf "$top"' EXIT
mkdir "$top/bin" "$top/work" "$top/out" || exit 2
ln -s "$product/$program" "$top/bin/$called" || exit 2
cd "$top/work" || exit 2
"""

_RUN = b"""
run() (
  exec env -i "HOME=$top/work" "LD_LIBRARY_PATH=$product/lib" \\
"""

_COMPARE = b"""
# one line per entry of the scratch folder: kind, mode, time, digest or target, path
walk() {
  for e in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$e" ] || [ -L "$e" ] || continue
    t=$(stat -c %.9Y "$e")
    [ "${t%.*}" -ge "$start" ] && [ "${t%.*}" -le "$end" ] && t=now
    mode=$(stat -c %a "$e")
    if [ -L "$e" ]; then printf 'link 777 %s %s %s\\n' - "$(readlink -n "$e"; printf x)" "$e"
    elif [ -d "$e" ]; then printf 'dir %s - - %s\\n' "$mode" "$e"; walk "$e"
    elif [ -f "$e" ]; then
      sum=$(sha256sum < "$e" 2>/dev/null) || { chmod u+r "$e"; sum=$(sha256sum < "$e"); }
      printf 'file %s %s %s %s\\n' "$mode" "$t" "${sum%% *}" "$e"
    elif [ -p "$e" ]; then printf 'fifo %s - - %s\\n' "$mode" "$e"
    else printf 'other %s - - %s\\n' "$mode" "$e"
    fi
  done
}
end=$(date +%s)
walk . | sort > "$top/out/files"
bad=0
same() { # file, what
  a=$(sha256sum < "$top/out/$1"); b=$(sha256sum < "$here/expected/$1")
  [ "$a" = "$b" ] && return
  bad=1
  printf -- '--- %s: the reference gives\\n' "$2"; head -c 2000 "$here/expected/$1"
  printf -- '\\n--- %s: this product gives\\n' "$2"; head -c 2000 "$top/out/$1"; echo
}
printf 'exit status %s\\n--- stdout\\n' "$(cat "$top/out/status")"; cat "$top/out/stdout"
printf -- '\\n--- stderr\\n'; cat "$top/out/stderr"; echo
same status 'exit status'
same stdout stdout
same stderr stderr
same files 'files afterwards'
if [ $bad -eq 0 ]; then echo 'RESULT: behaves as the reference'; else echo 'RESULT: differs from the reference'; fi
exit $bad
"""


def quote(value: bytes) -> bytes:
    """Return `value` as one word of a POSIX shell; it must hold no NUL, as no argument can."""
    return b"'" + value.replace(b"'", b"'\\''") + b"'"


def _entry(path: bytes) -> bytes:
    return quote(b"./" + path)


def _lay_files(check: Check) -> Iterator[bytes]:
    for i, f in enumerate(check.files):
        parent = posixpath.dirname(f.path)
        if parent:
            yield b"mkdir -p " + _entry(parent)
        if f.kind == "dir":
            yield b"mkdir -p " + _entry(f.path)
        elif f.kind == "link":
            yield b"ln -s " + quote(f.target) + b" " + _entry(f.path)
        elif f.kind == "fifo":
            yield b"mkfifo " + _entry(f.path)
        elif f.target:
            yield b"ln " + _entry(f.target) + b" " + _entry(f.path)
        else:
            yield b'cp "$here/input/%03d" ' % i + _entry(f.path)
    for f in reversed(check.files):  # a folder's time and mode last: laying what is in it changes them
        if f.kind == "link" or f.target:
            continue
        yield b"touch -d @%s " % seconds(f.mtime) + _entry(f.path)
        yield b"chmod %o " % f.mode + _entry(f.path)


def _invocation(check: Check, env: Mapping[bytes, bytes]) -> Iterator[bytes]:
    """The command of the function `run`: variables, argv[0] as the name by which it is found, arguments."""
    variables = {**env, **dict(check.env)}
    path = variables.pop(b"PATH", None)
    yield b'"PATH=$top/bin:"' + (b'"$product/bin"' if path is None else quote(path))
    for key, value in variables.items():
        yield quote(key + b"=" + value)
    yield b'"$called"'
    for argument in check.argv[1:]:
        yield quote(argument)


def _redirections(check: Check) -> tuple[bytes, bytes]:
    """Return (the redirections of the command, what is piped into it)."""
    stdin = {"closed": b"<&-", "file": b'< "$here/input/stdin"', "pipe": b""}[check.stdin_kind]
    stdout = {"closed": b">&-", "full": b"> /dev/full", "pipe": b""}[check.stdout]
    feed = b'cat "$here/input/stdin" | ' if check.stdin_kind == "pipe" else b""
    # on the program itself, inside a subshell that becomes it: a shell's word on a killed program is no output of it
    return b" ".join(filter(None, (stdin, stdout, b'2> "$top/out/stderr"'))), feed


def _called(check: Check) -> bytes:
    """argv[0] without its folders, as a shell can give a program a name only; `env` would take a `=` for a variable."""
    name = posixpath.basename(check.argv[0]) if check.argv else b""
    return name if name and b"=" not in name else posixpath.basename(check.program.encode())


def script(check: Check, env: Mapping[bytes, bytes] = BASE_ENV) -> bytes:
    """Return reproduce.sh for a check of the observer `process`; `env` is the task's base environment."""
    redirections, feed = _redirections(check)
    lines = [
        _HEAD,
        b"program=" + quote(check.program.encode()) + b"\n",
        b"called=" + quote(_called(check)) + b"\n",
        _SETUP,
        b"".join(line + b" || exit 2\n" for line in _lay_files(check)),
        _RUN,
        b"    " + b" ".join(_invocation(check, env)) + b" \\\n    " + redirections + b"\n)\n",
        b"start=$(date +%s)\n",
        feed + b'{ run 2> /dev/null; echo $? > "$top/out/status"; } | cat > "$top/out/stdout"\n',
        _COMPARE,
    ]
    return b"".join(lines)


def expected_status(o: Observation) -> int:
    """What `$?` holds: a shell reports a signal as 128 + its number."""
    return 128 + o.code if o.ended == "signal" else o.code


def listing(o: Observation) -> bytes:
    """The reference's files in the form that the script's `walk` prints, sorted by bytes."""
    lines = []
    for f in o.files:
        path = b"./" + f.path
        if f.kind == "file":
            time = b"now" if f.mtime == NOW else seconds(f.mtime)
            lines.append(b"file %o %s %s %s" % (f.mode, time, hashlib.sha256(f.data).hexdigest().encode(), path))
        elif f.kind == "link":
            lines.append(b"link 777 - %sx %s" % (f.target, path))
        else:
            lines.append(b"%s %o - - %s" % (f.kind.encode(), f.mode, path))
    text = b"\n".join(lines)
    return b"".join(line + b"\n" for line in sorted(text.split(b"\n"))) if lines else b""


def write(found: Counterexample, folder: Path, env: Mapping[bytes, bytes] = BASE_ENV) -> Path:
    """Write the reproducer into `folder` (made) and return its script; HarnessError when the disk refuses.

    A check of the observer `tree` runs no program: its script says what to ask instead, and ends with 2.
    """
    path = folder / "reproduce.sh"
    try:
        (folder / "input").mkdir(parents=True, exist_ok=True)
        (folder / "expected").mkdir(exist_ok=True)
        (folder / "README").write_text(_readme(found))
        for i, f in enumerate(found.check.files):
            if f.kind == "file" and not f.target:
                (folder / "input" / f"{i:03d}").write_bytes(f.data)
        (folder / "input" / "stdin").write_bytes(found.check.stdin)
        for name, data in (
            ("status", b"%d\n" % expected_status(found.expected)),
            ("stdout", found.expected.stdout),
            ("stderr", found.expected.stderr),
            ("files", listing(found.expected)),
        ):
            (folder / "expected" / name).write_bytes(data)
        path.write_bytes(_tree_script(found.check) if found.check.observer == "tree" else script(found.check, env))
        path.chmod(0o755)
    except OSError as e:
        raise HarnessError(f"cannot write the reproducer to {folder}: {e.strerror}; free some space and resume") from e
    return path


def _tree_script(check: Check) -> bytes:
    words = b" ".join(quote(a) for a in check.argv)
    return b"#!/bin/sh\n# This input looks at the product tree and runs nothing: the answers are in README.\n" + (
        b"echo 'question:' " + words + b"\nexit 2\n"
    )


def _readme(found: Counterexample) -> str:
    rules = ", ".join(found.check.rules)
    forgiven = (
        f"\nDifferences that these rules forgive are shown by the script all the same: {rules}\n" if rules else ""
    )
    return (
        f"Counterexample {found.id} of verifier {found.verifier} ({found.direction})\n"
        f"Signature: {found.signature}\n"
        f"Size: {found.size} bytes of input, from {found.original_size} as drawn\n\n"
        f"{found.explanation}\n{forgiven}\n"
        "sh reproduce.sh PRODUCT_TREE\n"
        "Exit status: 0 behaves as the reference, 1 differs, 2 cannot run. The program runs unconfined.\n"
    )
