import hashlib
import os
import random
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from refactorbench.errors import TaskError
from refactorbench.observe.elf import Elf, Malformed
from refactorbench.observe.model import Check, Observation
from refactorbench.observe.tree import observe_tree


def ask(product: Path, *argv: bytes) -> Observation:
    return observe_tree(product, Check("m/t", "m", "tree", "", argv))


def answer(product: Path, *argv: bytes) -> tuple[int, bytes]:
    o = ask(product, *argv)
    assert (o.ended, o.stderr, o.files) == ("exit", b"", ())
    return o.code, o.stdout


@pytest.fixture
def product(tmp_path: Path) -> Path:
    root = tmp_path / "product"
    (root / "bin").mkdir(parents=True)
    (root / "bin/tool").write_bytes(b"content")
    (root / "bin/tool").chmod(0o755)
    (root / "bin/alias").symlink_to("tool")
    (root / "out").symlink_to("../secret")
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    (tmp_path / "secret").write_bytes(b"secret")
    return root


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("gcc builds the ELF files of this test")
    root = tmp_path_factory.mktemp("elf")
    source = root / "l.c"
    source.write_text(
        'int shown(void){return 1;} int data = 1; __attribute__((visibility("hidden"))) int inner = 2;'
        "static int own(void){return inner;} int calls(void){return own();}"
        "extern int foreign(void); int uses(void){return foreign();}"
    )
    for name, flags in (
        ("gnu.so", ["-Wl,-soname,libl.so.1", "-Wl,--hash-style=gnu"]),
        ("sysv.so", ["-Wl,--hash-style=sysv", "-z", "execstack"]),
        ("stripped.so", ["-s"]),
    ):
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", root / name, source, *flags], check=True)
    return root


def test_entries_tell_kind_mode_and_target_without_following(product: Path) -> None:
    assert answer(product, b"entry", b"bin/tool") == (0, b"kind file\nmode 0755\n")
    assert answer(product, b"entry", b"bin/alias") == (0, b"kind link\ntarget tool\n")
    assert answer(product, b"entry", b"out") == (0, b"kind link\ntarget ../secret\n")
    assert answer(product, b"entry", b"pipe")[1].startswith(b"kind fifo\n")
    assert answer(product, b"entry", b"none") == (1, b"missing\n")
    assert answer(product, b"entry", b"nul\0byte") == (1, b"missing\n")


def test_digest_is_of_the_content_and_follows_links_inside_only(product: Path) -> None:
    wanted = f"sha256 {hashlib.sha256(b'content').hexdigest()}\nsize 7\n".encode()
    assert answer(product, b"digest", b"bin/tool") == (0, wanted)
    assert answer(product, b"digest", b"bin/alias") == (0, wanted)
    assert answer(product, b"digest", b"/bin/tool") == (0, wanted)  # product paths, never the host's


@pytest.mark.parametrize("path", [b"out", b"../secret", b"up/secret", b"bin/../../secret"])
@pytest.mark.parametrize("question", [b"digest", b"elf", b"symbols", b"list"])
def test_nothing_outside_the_product_is_read(product: Path, question: bytes, path: bytes) -> None:
    assert answer(product, question, path) == (1, b"outside\n")


def test_pipes_directories_and_loops_are_refused_without_blocking(product: Path) -> None:
    assert answer(product, b"digest", b"pipe") == (1, b"not a file\n")
    assert answer(product, b"digest", b"bin") == (1, b"not a file\n")
    assert answer(product, b"digest", b"loop")[0] == 1
    assert answer(product, b"list", b"bin/tool") == (1, b"not a directory\n")


def test_list_gives_sorted_escaped_names(product: Path) -> None:
    (product / "bin" / os.fsdecode(b"\xff new\n")).write_bytes(b"")
    assert answer(product, b"list", b"bin") == (0, b"name alias\nname tool\nname \\xff new\\n\n")


def test_elf_facts(library: Path) -> None:
    assert answer(library, b"elf", b"gnu.so", b"type", b"soname", b"stack", b"textrel") == (
        0,
        b"type shared\nsoname libl.so.1\nstack noexec\ntextrel no\n",
    )
    assert answer(library, b"elf", b"sysv.so", b"soname", b"stack") == (0, b"soname none\nstack exec\n")
    assert answer(library, b"elf", b"l.c") == (1, b"not elf\n")
    assert answer(library, b"elf", b"gnu.so")[1].splitlines()[0] == b"class 64"


@pytest.mark.parametrize("name", [b"gnu.so", b"sysv.so", b"stripped.so"])
def test_symbols_are_what_others_can_bind_to(library: Path, name: bytes) -> None:
    asked = (b"shown", b"data", b"inner", b"own", b"foreign", b"none")
    wanted = b"shown func\ndata object\ninner absent\nown absent\nforeign absent\nnone absent\n"
    assert answer(library, b"symbols", name, *asked) == (0, wanted)


def test_symbols_need_no_section_headers(library: Path) -> None:
    data = bytearray((library / "gnu.so").read_bytes())
    data[0x28:0x30] = bytes(8)  # e_shoff
    data[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    (library / "bare.so").write_bytes(data)
    assert answer(library, b"symbols", b"bare.so", b"shown", b"inner") == (0, b"shown func\ninner absent\n")


def test_hidden_symbols_are_not_exported_wherever_they_stand(library: Path) -> None:
    data = bytearray((library / "gnu.so").read_bytes())
    with (library / "gnu.so").open("rb") as f:
        table = ELFFile(f).get_section_by_name(".dynsym")
        index = next(i for i, s in enumerate(table.iter_symbols()) if s.name == "shown")
        data[table["sh_offset"] + 24 * index + 5] = 2  # st_other: STV_HIDDEN
    (library / "hidden.so").write_bytes(data)
    assert answer(library, b"symbols", b"hidden.so", b"shown", b"data") == (0, b"shown absent\ndata object\n")


def test_the_reader_agrees_with_a_general_one_on_this_interpreters_libraries() -> None:
    compared = 0
    for path in sorted(Path("/usr/lib").rglob("*.so*"))[:400:20]:
        if not path.is_file() or path.stat().st_size > 3_000_000 or path.read_bytes()[:4] != b"\x7fELF":
            continue
        with path.open("rb") as f:
            table = ELFFile(f).get_section_by_name(".dynsym")
            wanted = {
                s.name.encode()
                for s in table.iter_symbols()
                if s["st_shndx"] != "SHN_UNDEF"
                and s["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK", "STB_LOOS")
                and s["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED")
            }
        assert {s.name for s in Elf(path.read_bytes()).exported()} == wanted, path
        compared += 1
    if not compared:
        pytest.skip("no shared library to compare on")


def test_damaged_files_are_answered_quickly_and_never_crash(library: Path) -> None:
    rng, whole = random.Random(7), (library / "gnu.so").read_bytes()
    answers = set()
    began = time.process_time()
    for _ in range(1500):
        data = bytearray(whole[: rng.choice((len(whole), rng.randrange(len(whole))))])
        for _ in range(rng.choice((1, 4, 40))):
            at = rng.randrange(min(len(data) or 1, rng.choice((64, 1024, 1 << 20))))
            data[at : at + 1] = bytes([rng.choice((0, 255, rng.randrange(256)))])
        (library / "hostile.so").write_bytes(data)
        answers.add(answer(library, b"symbols", b"hostile.so", b"shown"))
        answers.add(answer(library, b"elf", b"hostile.so", b"soname"))
    assert (1, b"malformed\n") in answers and (1, b"not elf\n") in answers and (0, b"shown func\n") in answers
    assert time.process_time() - began < 30


def test_forged_counts_are_bounded() -> None:
    header = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 64, 0, 64, 0, 65535, 0, 65535, 0)
    )
    with pytest.raises(Malformed, match="65535 program headers"):
        Elf(header)


@pytest.mark.parametrize("argv", [(), (b"entry",), (b"entri", b"x"), (b"elf", b"gnu.so", b"son")])
def test_questions_that_dont_exist_are_the_tasks_fault(library: Path, argv: tuple[bytes, ...]) -> None:
    with pytest.raises(TaskError, match="one of"):
        ask(library, *argv)
