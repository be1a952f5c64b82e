#!/bin/sh
# Everything that a fresh Debian machine lacks: system packages by apt (as root or with sudo), then .venv by pip.
# Does nothing, and needs no network, where it has run before.
set -eu
cd "$(dirname "$0")"

packages="bubblewrap strace gcc libc6-dev binutils make tcl rustc cargo bzip2 xz-utils git procps"
missing=""
for p in $packages; do
    case "$p" in
        # a toolchain from elsewhere (rustup, say) serves as well as Debian's
        rustc | cargo) command -v "$p" > /dev/null 2>&1 && continue ;;
    esac
    dpkg-query -W -f '${Status}' "$p" 2> /dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
    echo "setup: installing$missing"
    if [ "$(id -u)" = 0 ]; then as=""; elif command -v sudo > /dev/null 2>&1; then as="sudo"; else
        echo "setup: these Debian packages are missing and only root can add them:$missing" >&2
        echo "setup: run, as root: apt-get install --no-install-recommends$missing" >&2
        exit 3
    fi
    $as apt-get update -q > /dev/null
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $as apt-get install -y -q --no-install-recommends $missing > /dev/null
fi

stamp=.venv/.installed
want=$(sha256sum pyproject.toml | cut -d ' ' -f 1)
if [ "$(cat "$stamp" 2> /dev/null || true)" != "$want" ]; then
    echo "setup: Python packages into .venv"
    [ -x .venv/bin/python ] || python3 -m venv .venv
    .venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]'
    echo "$want" > "$stamp"
fi
