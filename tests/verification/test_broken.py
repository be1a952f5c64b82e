from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from refactorbench.errors import HarnessError
from refactorbench.verification.broken import BROKEN_STATUS, make_broken, program


@pytest.fixture
def product(tmp_path: Path) -> Path:
    top = tmp_path / "product"
    for name, mode, text in (
        ("bin/tool", 0o755, "#!/bin/sh\necho alive\n"),
        ("drivers/compress", 0o555, "#!/bin/sh\necho alive\n"),
        ("lib/libx.so.1.0", 0o755, "library"),
        ("lib/libx.a", 0o644, "archive"),
        ("include/x.h", 0o644, "int x;\n"),
    ):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    (top / "bin/alias").symlink_to("tool")
    return top


def test_every_program_is_silent_and_ends_with_99(product: Path, tmp_path: Path) -> None:
    broken = make_broken(product, tmp_path / "broken")
    for name in ("bin/tool", "bin/alias", "drivers/compress"):
        alive = subprocess.run([product / name, "x"], capture_output=True, input=b"in", check=False)
        assert (alive.returncode, alive.stdout) == (0, b"alive\n")
        dead = subprocess.run([broken / name, "x"], capture_output=True, input=b"in", check=False)
        assert (dead.returncode, dead.stdout, dead.stderr) == (BROKEN_STATUS, b"", b"")


def test_libraries_are_gone_and_the_rest_is_kept(product: Path, tmp_path: Path) -> None:
    broken = make_broken(product, tmp_path / "broken")
    kept = sorted(str(p.relative_to(broken)) for p in broken.rglob("*") if not p.is_dir())
    assert kept == ["bin/alias", "bin/tool", "drivers/compress", "include/x.h"]
    assert (broken / "include/x.h").read_text() == "int x;\n"
    assert (broken / "drivers/compress").stat().st_mode & 0o777 == 0o555
    assert (broken / "bin/alias").readlink() == Path("tool")


def test_it_is_made_anew(product: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/left").write_text("over")
    assert not (make_broken(product, tmp_path / "broken") / "left").exists()


def test_known_machines_only() -> None:
    assert platform.machine() in ("x86_64", "aarch64")
    assert program("aarch64")[18] == 183
    with pytest.raises(HarnessError, match="pdp11"):
        program("pdp11")
