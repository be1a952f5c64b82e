from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from refactorbench.errors import HarnessError
from refactorbench.verification import broken
from refactorbench.verification.broken import BROKEN_STATUS, broken_product, program


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


def laid(product: Path, tmp_path: Path) -> Path:
    with broken_product(product, tmp_path / "cache") as target:
        return target


def test_every_program_is_silent_and_ends_with_99(product: Path, tmp_path: Path) -> None:
    dead_tree = laid(product, tmp_path)
    for name in ("bin/tool", "bin/alias", "drivers/compress"):
        alive = subprocess.run([product / name, "x"], capture_output=True, input=b"in", check=False)
        assert (alive.returncode, alive.stdout) == (0, b"alive\n")
        dead = subprocess.run([dead_tree / name, "x"], capture_output=True, input=b"in", check=False)
        assert (dead.returncode, dead.stdout, dead.stderr) == (BROKEN_STATUS, b"", b"")


def test_libraries_are_gone_and_the_rest_is_kept(product: Path, tmp_path: Path) -> None:
    dead_tree = laid(product, tmp_path)
    kept = sorted(str(p.relative_to(dead_tree)) for p in dead_tree.rglob("*") if not p.is_dir())
    assert kept == ["bin/alias", "bin/tool", "drivers/compress", "include/x.h"]
    assert (dead_tree / "include/x.h").read_text() == "int x;\n"
    assert (dead_tree / "drivers/compress").stat().st_mode & 0o777 == 0o555
    assert (dead_tree / "bin/alias").readlink() == Path("tool")


def test_one_copy_per_product_is_kept_whole(product: Path, tmp_path: Path) -> None:
    first = laid(product, tmp_path)
    assert laid(product, tmp_path) == first
    assert sorted(p.name for p in (tmp_path / "cache/broken").iterdir()) == [first.name]
    (product / "bin/tool").write_text("another")
    assert laid(product, tmp_path) != first


def test_a_disk_that_refuses_leaves_nothing_half_made(
    product: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(broken.shutil, "copyfile", full)
        with pytest.raises(HarnessError, match="No space left"):
            laid(product, tmp_path)
    assert list((tmp_path / "cache/broken").iterdir()) == []
    assert (laid(product, tmp_path) / "include/x.h").exists()


def test_known_machines_only() -> None:
    assert platform.machine() in ("x86_64", "aarch64")
    assert program("aarch64")[18] == 183
    with pytest.raises(HarnessError, match="pdp11"):
        program("pdp11")
