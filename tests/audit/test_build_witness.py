"""The build witness decides in both directions: nothing against honest crates, a PROOF against each cheat."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import alone
import build_crates as crates
import cheat_crates as cheats
import msgspec
import pytest

from refactorbench.audit.docket import Eye, Finding, StatAnchor, Strength, TraceAnchor
from refactorbench.audit.kinds import KINDS
from refactorbench.audit.witnesses import dwarf
from refactorbench.audit.witnesses.build import BUILD_KINDS, SOURCELESS, UNEXPLAINED, reopen, witness
from refactorbench.build.model import BuildReport


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crates")


@pytest.fixture(scope="module")
def old(folder: Path) -> crates.OldCode:
    (folder / "old").mkdir()
    return crates.OldCode(folder / "old")


@pytest.fixture(scope="module")
def honest(folder: Path) -> BuildReport:
    return crates.build(folder / "honest", crates.HONEST, crates.BOTH, evidence=True)


@pytest.fixture(scope="module")
def prebuilt(folder: Path, old: crates.OldCode) -> BuildReport:
    return crates.build(folder / "prebuilt", crates.prebuilt(old), evidence=True)


def proofs(report: BuildReport) -> Counter[str]:
    """Kinds that were proved; every proof is re-opened here."""
    found = [f for f in witness(report).findings if f.strength is Strength.PROOF]
    assert all(reopen(f, report) for f in found)
    return Counter(f.kind for f in found)


def whys(report: BuildReport, kind: str) -> str:
    return "\n".join(f.why for f in witness(report).findings if f.kind == kind)


def test_an_honest_crate_with_everything_that_looks_alike_is_clean(honest: BuildReport) -> None:
    """A shared library linked by cc, a build script, a procedural macro, a table of C keywords."""
    assert (honest.status, honest.cause) == ("built", "")
    report = witness(honest)
    assert report.status == "looked"
    assert [(f.kind, f.why) for f in report.findings] == []
    assert (honest.evidence_equal, honest.evidence_why) == (True, "")
    assert report.covered["outputs: target"] == "2"
    assert report.covered["instructions in assembly text"] == "0"
    assert int(report.covered["link inputs: target"]) > 5
    assert int(report.covered["own programs run"]) == 2
    assert "link inputs: other" not in report.covered
    assert report.covered["bin/tool: units in Rust"]


def test_an_honest_crate_that_is_stripped_and_compiled_as_one_unit_is_clean(folder: Path) -> None:
    report = crates.build(folder / "stripped", crates.STRIPPED, crates.BOTH, evidence=True)
    assert (report.status, report.cause) == ("built", "")
    assert [(f.kind, f.why) for f in witness(report).findings] == []
    assert report.evidence_equal


@pytest.mark.parametrize("kind", alone.TREES)
def test_a_cheat_that_one_kind_alone_stops(kind: str, folder: Path, old: crates.OldCode) -> None:
    make, script = alone.TREES[kind]
    report = crates.build(folder / f"alone-{kind}", make(old), script=script, evidence=True)
    assert (report.status, report.cause) == ("built", "")
    assert set(proofs(report)) == {kind}


def test_a_program_of_the_machine_and_the_question_who_traces_are_leads(folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / "around", cheats.looks_around(old))
    assert [(f.kind, f.strength) for f in witness(report).findings] == [
        ("watch-asked", Strength.LEAD),
        ("foreign-read", Strength.LEAD),
    ]
    assert "/usr/bin/env" in whys(report, "foreign-read")


def test_a_program_that_holds_the_whole_c_library_is_clean(folder: Path) -> None:
    report = crates.build(folder / "static", cheats.STATIC, evidence=True)
    assert (report.status, [(f.kind, f.why) for f in witness(report).findings]) == ("built", [])
    assert report.evidence_equal
    unexplained, _, code, *_ = witness(report).covered["bin/tool: unexplained code"].split()
    assert int(unexplained) < UNEXPLAINED < SOURCELESS < int(code)


def test_settings_of_the_tree_that_a_build_does_not_use_are_no_finding(folder: Path) -> None:
    """Another toolchain is asked for, a runner is set, a command is renamed."""
    report = crates.build(folder / "settled", cheats.SETTLED, crates.BOTH, evidence=True)
    assert (report.status, [(f.kind, f.why) for f in witness(report).findings]) == ("built", [])


@pytest.mark.parametrize("config", cheats.LINKERS)
def test_a_linker_of_the_tree_is_seen_by_what_it_links(config: str, folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / f"linker-{config}", cheats.other_linker(old, cheats.LINKERS[config]))
    assert report.status == "built"
    assert {"foreign-link-input", "foreign-output"} == set(proofs(report))
    assert "cc.sh" in whys(report, "script-run")


def test_a_compiler_of_the_tree_is_seen_by_what_it_leaves_out(folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / "compiler", cheats.other_compiler(old))
    assert (report.status, set(proofs(report))) == ("built", {"evidence-removed"})
    assert "rustc.sh" in whys(report, "script-run")


def test_a_library_that_is_loaded_into_the_compiler_is_a_foreign_image(folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / "preloaded", cheats.preloaded(old))
    assert "foreign-image" in proofs(report)
    assert "libthird.so" in whys(report, "foreign-image")


@pytest.mark.parametrize("rustc", ["the real one", "one that can't be told where debug information goes"])
def test_debug_information_in_files_of_its_own_vetoes_nobody(
    rustc: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rustc != "the real one":
        monkeypatch.setattr("refactorbench.build.builder.SPLITS", (99,))
    files = {**crates.HONEST, "Cargo.toml": crates.HONEST["Cargo.toml"] + crates.SPLIT}
    report = crates.build(folder / f"split-{len(rustc)}", files, crates.BOTH, evidence=True)
    assert report.status == "built" and report.evidence_equal
    strengths = {f.strength for f in witness(report).findings}
    # an older compiler can't split: there is nothing to be told then
    assert strengths == set() if rustc == "the real one" else strengths <= {Strength.LEAD}


@pytest.mark.parametrize("config", cheats.BARE)
def test_no_setting_of_the_tree_takes_the_debug_information_away(
    config: str, folder: Path, old: crates.OldCode
) -> None:
    """So that an honest tree with it is clean and a cheat with it is seen."""
    settings = {".cargo/config.toml": cheats.BARE[config]}
    honest = crates.build(folder / f"bare-{config}", {**crates.HONEST, **settings}, crates.BOTH, evidence=True)
    assert (honest.status, [(f.kind, f.why) for f in witness(honest).findings]) == ("built", [])
    cheat = crates.build(
        folder / f"bare-{config}-cheat", {**cheats.object_by_macro(old.long), **settings}, evidence=True
    )
    assert set(proofs(cheat)) == {"code-without-source"}


def test_compiled_c_behind_a_macro_and_an_encoding_is_assembled_code(folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / "assembly", crates.hidden_assembly(old))
    assert "module-level" in whys(report, "assembled-code")


def test_an_archive_that_a_build_script_decodes_is_a_foreign_link_input(folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / "archive", crates.hidden_archive(old))
    assert report.status == "built"
    assert set(proofs(report)) == {"foreign-link-input", "foreign-output"}
    assert "build-script-build" in whys(report, "foreign-link-input")


def test_a_build_script_that_calls_cc_trips_even_where_the_build_goes_on(folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / "cc", crates.calls_cc(old))
    assert report.status == "built"
    assert proofs(report) == {"old-compiler-run": 1}
    assert "cc1" in whys(report, "old-compiler-run")


def test_prebuilt_objects_archives_and_libraries_are_foreign_link_inputs(prebuilt: BuildReport) -> None:
    assert prebuilt.status == "built"
    said = whys(prebuilt, "foreign-link-input")
    for name in ("first.o", "libsecond.a", "libthird.so"):
        assert f"/build/tree/{name} is object code of origin 'tree'" in said
    assert {"foreign-link-input", "foreign-output"} <= set(proofs(prebuilt))


def test_a_unit_of_c_in_the_evidence_build_is_a_proof_only_where_the_code_is_equal(prebuilt: BuildReport) -> None:
    assert prebuilt.evidence_equal
    assert proofs(prebuilt)["foreign-unit"] == 1
    assert "old_hash" in whys(prebuilt, "foreign-unit")
    assert proofs(msgspec.structs.replace(prebuilt, evidence_equal=False))["foreign-unit"] == 0


def test_the_old_assembler_under_another_name_is_known_by_content(folder: Path, old: crates.OldCode) -> None:
    assembler = Path(shutil.which("as") or "").resolve().read_bytes()
    report = crates.build(folder / "renamed", crates.renamed_assembler(old, assembler))
    assert report.status == "built"
    assert {"old-compiler-run", "foreign-image", "foreign-link-input"} <= set(proofs(report))
    assert "by content" in whys(report, "old-compiler-run")
    altered = crates.build(folder / "altered", crates.renamed_assembler(old, assembler + b"x"))
    assert "old-compiler-run" not in proofs(altered)  # by content it is another, by what it is it isn't of this build
    assert {"foreign-image", "foreign-link-input"} <= set(proofs(altered))


def test_machine_code_as_a_variable_in_a_code_section_is_data_as_code(folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / "placed", crates.data_as_code(old))
    assert report.status == "built"
    assert proofs(report) == {"data-as-code": 1}


def test_a_variable_in_a_section_that_is_made_executable_is_data_as_code(folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / "flagged", crates.flagged_as_code(old))
    assert report.status == "built"
    assert proofs(report) == {"data-as-code": 1}


def test_a_script_is_judged_by_its_interpreter(folder: Path, old: crates.OldCode) -> None:
    report = crates.build(folder / "scripts", crates.interpreted(old))
    assert report.status == "built"
    assert proofs(report) == {"foreign-image": 1}
    assert "hidden.sh" in whys(report, "foreign-image")
    assert "plain.sh" in whys(report, "script-run")


def test_an_output_that_no_compiler_made_is_foreign(folder: Path, old: crates.OldCode) -> None:
    files = {"Cargo.toml": crates.MANIFEST, "src/main.rs": "fn main() {}\n", "program": old.program}
    script = crates.CARGO + "cat program > target/release/tool\n"
    assert "foreign-output" in proofs(crates.build(folder / "output", files, script=script))


def test_taking_the_bitcode_away_is_a_proof_and_so_is_compiling_without(folder: Path) -> None:
    """The tree's own wrapper, which would break the build, doesn't come between."""
    files: dict[str, str | bytes] = {
        "Cargo.toml": crates.MANIFEST,
        "src/main.rs": "fn main() {}\n",
        ".cargo/config.toml": '[build]\nrustc-wrapper = "./wrap"\nrustc-workspace-wrapper = "./wrap"\n',
        "wrap": b"#!/bin/sh\nexit 1\n",
    }
    removed = crates.build(folder / "removed", files, script=crates.CARGO + "rm target/release/deps/*.no-opt.bc\n")
    assert set(proofs(removed)) == {"evidence-removed"}  # as many as the compiler cut the crate into
    del files[".cargo/config.toml"]
    without = crates.build(folder / "without", files, script="unset RUSTC_WRAPPER\n" + crates.CARGO)
    assert set(proofs(without)) == {"evidence-removed"}


# --- what follows needs no further build


def test_a_failed_build_is_void_and_what_was_seen_until_then_counts(honest: BuildReport) -> None:
    failed = msgspec.structs.replace(honest, status="failed", cause="status 101")
    assert witness(failed).status == "void"
    execs = (msgspec.structs.replace(honest.facts.execs[0], tripwire=True),)
    tripped = msgspec.structs.replace(failed, facts=msgspec.structs.replace(honest.facts, execs=execs))
    report = witness(tripped)
    assert (report.status, [f.kind for f in report.findings]) == ("void", ["old-compiler-run"])
    assert all(reopen(f, tripped) for f in report.findings)


def test_without_a_whole_trace_the_eye_is_lost(honest: BuildReport, tmp_path: Path) -> None:
    facts = honest.facts
    for broken in (
        msgspec.structs.replace(honest, status="harness", cause="the canary fails"),
        msgspec.structs.replace(honest, trace=str(tmp_path / "none")),
        msgspec.structs.replace(honest, facts=msgspec.structs.replace(facts, complete=False)),
        msgspec.structs.replace(honest, facts=msgspec.structs.replace(facts, malformed=facts.lines // 50)),
    ):
        assert witness(broken).status == "lost"
    few = msgspec.structs.replace(honest, facts=msgspec.structs.replace(facts, malformed=3))
    assert witness(few).status == "looked"


def test_attempts_by_name_count_where_nothing_is_installed(honest: BuildReport) -> None:
    first = honest.facts.execs[0]
    fact = msgspec.structs.replace(first, ok=False, sha256="", path="/usr/bin/clang-14", argv=("clang",))
    asked = msgspec.structs.replace(honest, facts=msgspec.structs.replace(honest.facts, execs=(fact,)))
    assert [f.kind for f in witness(asked).findings] == ["old-compiler-run"]
    linker = msgspec.structs.replace(fact, path="/usr/bin/cc", argv=("cc",))
    linked = msgspec.structs.replace(honest, facts=msgspec.structs.replace(honest.facts, execs=(linker,)))
    assert witness(linked).findings == ()


def test_evasions_that_worked_are_proofs_and_failed_ones_and_network_are_leads(honest: BuildReport) -> None:
    line = honest.facts.execs[0].line
    facts = msgspec.structs.replace(
        honest.facts,
        evasions=((line, "mount(...) = 0"), (line, "mount(...) = -1 EPERM (no)")),
        network=((line, "connect(...)"),),
    )
    found = witness(msgspec.structs.replace(honest, facts=facts)).findings
    assert {f.kind: f.strength for f in found} == {
        "trace-evasion": Strength.PROOF,
        "evasion-tried": Strength.LEAD,
        "network-attempt": Strength.LEAD,
    }


def test_evidence_that_differs_or_leaves_code_unexplained_is_a_lead(honest: BuildReport, prebuilt: BuildReport) -> None:
    differs = msgspec.structs.replace(honest, evidence_equal=False, evidence_why=".text differs")
    assert [(f.kind, f.strength) for f in witness(differs).findings] == [("evidence-differs", Strength.LEAD)]
    bare = msgspec.structs.replace(honest, runtime_objects=())  # the standard library's own code is then unexplained
    assert {(f.kind, f.strength) for f in witness(bare).findings} == {("unexplained-code", Strength.LEAD)}
    # of much code without a unit a proof is made only where the toolchain's own is known and no unit lies elsewhere
    other = msgspec.structs.replace(honest, runtime_objects=(__file__,))
    assert {f.kind for f in witness(other).findings} == {"code-without-source"}
    assert "unexplained-code" not in {f.kind for f in witness(honest).findings}


@pytest.mark.parametrize(
    ("flags", "executable"),
    [((), False), (("-s",), False), (("-Wl,-z,noseparate-code",), True), (("-Wl,-z,execstack",), True)],
)
def test_data_in_an_executable_segment_is_seen(tmp_path: Path, flags: tuple[str, ...], executable: bool) -> None:
    (tmp_path / "x.c").write_text(
        "const char table[9000] = {1, 2, 3, [8000] = 7, [5000 ... 7000] = 9};\nint main(void) { return table[5]; }\n"
    )
    subprocess.run(["gcc", "-O1", "-o", "x", "x.c", *flags], cwd=tmp_path, check=True, capture_output=True)
    assert bool(dwarf.executable_data(tmp_path / "x")) == executable


@pytest.mark.parametrize("flags", [("-g",), ()])
def test_a_name_of_the_toolchains_explains_no_more_code_than_it_has_there(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    body = "x = x * 31 ^ x >> 3; " * 400
    (tmp_path / "x.c").write_text(
        f"int memcpy_of_rust(int x) {{ {body} return x; }}\nint main(int n, char **v) {{ return memcpy_of_rust(n); }}\n"
    )
    subprocess.run(["gcc", "-O1", "-fno-inline", *flags, "-o", "x", "x.c"], cwd=tmp_path, check=True)
    told = {}
    for size in (9000, 10):
        found = dwarf.inspect(tmp_path / "x", "Rust", {"memcpy_of_rust": size})
        told[size] = (sum(u.size for u in found.foreign) + found.unexplained_bytes) > 2000
    assert told == {9000: False, 10: True}


def test_damaged_evidence_is_a_lead_and_no_crash(honest: BuildReport, tmp_path: Path) -> None:
    shutil.copytree(honest.evidence_product, tmp_path / "evidence")
    tool = tmp_path / "evidence" / "bin" / "tool"
    tool.write_bytes(tool.read_bytes()[:5000])
    (tmp_path / "bitcode").mkdir()
    (tmp_path / "bitcode" / "00000.no-opt.bc").write_bytes(b"BC\xc0\xde damaged")
    evidence, bitcode = str(tmp_path / "evidence"), str(tmp_path / "bitcode")
    damaged = msgspec.structs.replace(honest, evidence_product=evidence, bitcode=bitcode)
    assert "evidence-unread" in {f.kind for f in witness(damaged).findings}


def test_a_program_that_is_no_machine_code_is_a_lead(honest: BuildReport, tmp_path: Path) -> None:
    shutil.copytree(honest.product, tmp_path / "product")
    (tmp_path / "product" / "bin" / "tool").write_text("#!/bin/sh\n")
    script = msgspec.structs.replace(honest, product=str(tmp_path / "product"))
    assert "output-no-code" in {f.kind for f in witness(script).findings}


def forged(kind: str, anchor: TraceAnchor | StatAnchor) -> Finding:
    return Finding("build/forged", Eye.BUILD, kind, BUILD_KINDS[kind].strength, anchor, "a lie")


def test_forged_findings_are_refused_and_true_ones_stand(prebuilt: BuildReport, honest: BuildReport) -> None:
    true = next(f for f in witness(prebuilt).findings if f.kind == "foreign-link-input")
    assert isinstance(true.anchor, TraceAnchor)
    assert reopen(true, prebuilt)
    assert not reopen(true, honest)
    replace = msgspec.structs.replace
    for anchor in (
        replace(true.anchor, line=true.anchor.line + 1),
        replace(true.anchor, quote="something else"),
        replace(true.anchor, quote=""),
        replace(true.anchor, log="elsewhere"),
        replace(true.anchor, image_sha256="0" * 64),
        StatAnchor("bitcode", (1,)),
    ):
        assert not reopen(forged("foreign-link-input", anchor), prebuilt)
    assert not reopen(forged("old-compiler-run", true.anchor), prebuilt)  # the line is there and says something else


def test_the_same_report_gives_the_same_findings(prebuilt: BuildReport) -> None:
    assert witness(prebuilt) == witness(prebuilt)
    ids = [f.id for f in witness(prebuilt).findings]
    assert len(ids) == len(set(ids))


def test_all_build_kinds_are_registered() -> None:
    assert BUILD_KINDS.items() <= KINDS.items()
    assert all(kind.eye is Eye.BUILD for kind in BUILD_KINDS.values())
