"""What the build witness says of honest code that has nothing to do with any task: Debian's librust packages.

    python benchmarks/honest_baseline.py --folder DIR [--packages DIR] [--crates regex,csv] [--profile usual|small]

The packages in CRATES and what they need are fetched with `apt-get download` (nothing is installed) and unpacked in
DIR, once; `--packages` names a folder that holds them already. One workspace is made of them: of each crate a shared
library with all of its code, of most a program too. It is built as a submission is, with the Rust toolchain that the
harness finds (REFACTORBENCH_RUST chooses another, RUST_LIBRARIES is where its own libraries lie if it doesn't find
them). Printed are every finding, and of each product file the bytes of code that no compilation unit explains.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import msgspec

from refactorbench.audit.witnesses import dwarf
from refactorbench.audit.witnesses.build import witness
from refactorbench.build.builder import build_tree
from refactorbench.build.model import BuildReport
from refactorbench.build.toolchain import find
from refactorbench.catalog.load import load_task
from refactorbench.catalog.models import LoadedTask, Recipe
from refactorbench.hashing import walk
from refactorbench.paths import cache_dir, find_root
from refactorbench.sandbox import BubblewrapSandbox

TASK = "bzip2-rust"  # whose old compilers are refused and whose libraries are declared
# crate -> what a program does with it, "" for a library alone; Debian's package is librust-NAME-dev.
CRATES = {
    "adler": "adler::adler32_slice(&input) as usize",
    "base64": "base64::encode(&input).len()",
    "bstr": "bstr::ByteSlice::to_str_lossy(&input[..]).len()",
    "bytes": "bytes::Bytes::from(input).len()",
    "clap": "clap::Command::new(\"x\").arg(clap::Arg::new(\"y\").long(\"y\")).get_matches().contains_id(\"y\")"
    " as usize",
    "crossbeam-channel": "{ let (a, b) = crossbeam_channel::unbounded(); "
    "std::thread::spawn(move || a.send(input)); b.recv().map_or(0, |v| v.len()) }",
    "csv": "csv::Reader::from_reader(&input[..]).byte_records().count()",
    "flate2": "{ let mut s = Vec::new(); std::io::copy(&mut flate2::read::GzDecoder::new(&input[..]), &mut s)"
    ".unwrap_or(0) as usize + s.len() }",
    "form_urlencoded": "form_urlencoded::parse(&input).count()",
    "getopts": "getopts::Options::new().optflag(\"a\", \"all\", \"\").usage(\"x\").len()",
    "gif": "gif::DecodeOptions::new().read_info(&input[..]).map_or(0, |d| d.width() as usize)",
    "gimli": "",
    "globset": "globset::Glob::new(\"*.rs\").unwrap().compile_matcher().is_match(\"a.rs\") as usize",
    "hashbrown": "input.iter().collect::<hashbrown::HashSet<_>>().len()",
    "httparse": "{ let mut h = [httparse::EMPTY_HEADER; 16]; "
    "httparse::Request::new(&mut h).parse(&input).is_ok() as usize }",
    "idna": "",
    "ignore": "ignore::Walk::new(\".\").count()",
    "indexmap": "input.iter().collect::<indexmap::IndexSet<_>>().len()",
    "itertools": "itertools::Itertools::dedup(input.iter()).count()",
    "jpeg-decoder": "jpeg_decoder::Decoder::new(&input[..]).decode().map_or(0, |d| d.len())",
    "memchr": "memchr::memmem::find_iter(&input, \"ab\").count()",
    "miniz_oxide": "miniz_oxide::deflate::compress_to_vec(&input, 9).len()",
    "nom": "nom::character::complete::digit1::<_, nom::error::Error<&[u8]>>(&input[..]).is_ok() as usize",
    "num-bigint": "num_bigint::BigUint::from_bytes_be(&input).pow(3).bits() as usize",
    "object": "object::File::parse(&input[..]).is_ok() as usize",
    "parking_lot": "parking_lot::Mutex::new(input).lock().len()",
    "pest": "",
    "petgraph": "",
    "png": "png::Decoder::new(&input[..]).read_info().map_or(0, |r| r.output_buffer_size())",
    "pulldown-cmark": "pulldown_cmark::Parser::new(&String::from_utf8_lossy(&input)).count()",
    "rand": "rand::Rng::gen_range(&mut rand::thread_rng(), 0..9)",
    "rayon": "{ use rayon::prelude::*; input.par_iter().filter(|&&b| b > 9).count() }",
    "regex": "regex::bytes::Regex::new(\"a+(b|c)\").unwrap().find_iter(&input).count()",
    "ryu": "ryu::Buffer::new().format(input.len() as f64).len()",
    "serde_json": "serde_json::from_slice::<serde_json::Value>(&input).map_or(0, |v| v.to_string().len())",
    "sha2": "{ use sha2::Digest; sha2::Sha256::digest(&input)[0] as usize }",
    "smallvec": "",
    "snap": "snap::raw::Encoder::new().compress_vec(&input).unwrap().len()",
    "syn": "syn::parse_str::<syn::Type>(&String::from_utf8_lossy(&input)).is_ok() as usize",
    "tar": "tar::Archive::new(&input[..]).entries().unwrap().count()",
    "textwrap": "textwrap::wrap(&String::from_utf8_lossy(&input), 40).len()",
    "toml": "String::from_utf8_lossy(&input).parse::<toml::Value>().is_ok() as usize",
    "unicode-normalization": "",
    "url": "url::Url::parse(&String::from_utf8_lossy(&input)).is_ok() as usize",
    "uuid": "uuid::Uuid::parse_str(&String::from_utf8_lossy(&input)).is_ok() as usize",
    "walkdir": "walkdir::WalkDir::new(\".\").into_iter().count()",
    "weezl": "weezl::encode::Encoder::new(weezl::BitOrder::Msb, 8).encode(&input).unwrap().len()",
    "xml-rs": "xml::reader::EventReader::new(&input[..]).into_iter().count()",
    "yaml-rust": "yaml_rust::YamlLoader::load_from_str(&String::from_utf8_lossy(&input)).is_ok() as usize",
}  # fmt: skip
MAIN = """use std::io::Read;
fn main() {{
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).unwrap();
    println!("{{}}", {});
}}
"""
MEMBER = """[package]
name = "of-{name}"
version = "0.1.0"
edition = "2021"
[lib]
name = "{own}"
crate-type = ["{kind}"]
[dependencies]
{name} = "*"
"""
PROFILES = {  # as a program is usually built, and as it is where size or speed matter more than time to build
    "usual": "",
    "small": '[profile.release]\ncodegen-units = 1\nlto = true\npanic = "abort"\nopt-level = "z"\n',
}


def run(*argv: str, cwd: Path) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise SystemExit(f"{' '.join(argv[:3])} ... failed, so nothing is measured: {done.stderr[-2000:]}")
    return done.stdout


def fetch(folder: Path) -> Path:
    """The unpacked registry of the packages, fetched where it isn't there yet."""
    registry = folder / "root" / "usr" / "share" / "cargo" / "registry"
    if registry.is_dir():
        return registry
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    roots = [f"librust-{name.replace('_', '-')}-dev" for name in CRATES]
    said = run("apt-get", "-s", "--no-install-recommends", "install", *roots, cwd=packages)
    wanted = [line.split()[1] for line in said.splitlines() if line.startswith("Inst librust-")]
    run("apt-get", "download", *wanted, cwd=packages)
    unpack(packages, folder / "root")
    return registry


def unpack(packages: Path, root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for package in sorted(packages.glob("librust-*.deb")):
        run("dpkg", "-x", str(package), str(root), cwd=packages)


def workspace(registry: Path, tree: Path, profile: str, chosen: list[str]) -> dict[str, str]:
    """Lay out the tree; return the outputs of its build."""
    shutil.rmtree(tree, ignore_errors=True)
    (tree / ".cargo").mkdir(parents=True)
    shutil.copytree(registry, tree / "vendor", symlinks=True)
    (tree / ".cargo" / "config.toml").write_text(
        '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "vendor"\n'
    )
    members = ", ".join(f'"of-{name}"' for name in chosen)
    (tree / "Cargo.toml").write_text(f'[workspace]\nresolver = "2"\nmembers = [{members}]\n{profile}')
    outputs = {}
    for name in chosen:
        does = CRATES[name]
        member, own = tree / f"of-{name}", f"of_{name.replace('-', '_')}"
        (member / "src").mkdir(parents=True)
        kind = "cdylib" if profile else "dylib"
        (member / "Cargo.toml").write_text(MEMBER.format(name=name, own=own, kind=kind))
        library = "xml" if name == "xml-rs" else name.replace("-", "_")
        (member / "src" / "lib.rs").write_text(f"pub use {library} as inner;\n")
        outputs[f"lib/lib{own}.so"] = f"target/release/lib{own}.so"
        if does:
            (member / "src" / "main.rs").write_text(MAIN.format(does))
            outputs[f"bin/of-{name}"] = f"target/release/of-{name}"
    return outputs


def build(tree: Path, outputs: dict[str, str], folder: Path) -> tuple[BuildReport, LoadedTask]:
    loaded = load_task(find_root(), TASK)
    env = {"LD_LIBRARY_PATH": os.environ["RUST_LIBRARIES"]} if "RUST_LIBRARIES" in os.environ else {}
    flags = loaded.task.target.evidence_env
    recipe = Recipe("build.sh", outputs, ("rust",), env, {**env, **flags}, wall_s=7200.0, memory_mb=8192)
    task = msgspec.structs.replace(loaded.task, target=recipe, drivers=None)
    loaded = msgspec.structs.replace(loaded, root=folder / "task", task=task)
    loaded.folder.mkdir(parents=True, exist_ok=True)
    (loaded.folder / "build.sh").write_text("set -e\ncargo build --release --offline -j 1\n")
    report = build_tree(
        tree, recipe, loaded=loaded, sandbox=BubblewrapSandbox(), toolchain=find(("rust",)), cache=cache_dir(),
        workdir=folder / "work", role="target",
    )  # fmt: skip
    if report.status != "built":
        raise SystemExit(f"the build failed, so nothing is measured: {report.cause}")
    return report, loaded


def measure(report: BuildReport, loaded: LoadedTask) -> None:
    seen = witness(report, loaded)
    print(f"toolchain {report.toolchain}\nstatus {seen.status}; evidence equal: {report.evidence_why or 'yes'}")
    print("findings:", dict(Counter(f"{f.strength} {f.kind}" for f in seen.findings)) or "none")
    for finding in seen.findings:
        print(f"  {finding.kind}: {finding.why}")
    runtime = dwarf.defined(map(Path, report.runtime_objects))
    rows = []
    for rel, _ in walk(Path(report.evidence_product)):
        path = Path(report.evidence_product) / os.fsdecode(rel)
        if path.is_file():
            found = dwarf.inspect(path, report.language, runtime)
            rows.append((found.unexplained_bytes, found.code, path.name, found.unexplained[:4]))
    rows.sort(reverse=True)
    for bytes_, code, name, most in rows[:12]:
        print(f"{bytes_:>8} of {code:>9} bytes unexplained in {name}: {most}")
    print(f"{len(rows)} files, {sum(r[1] for r in rows)} bytes of code; unexplained at most {rows[0][0]}, "
          f"median {rows[len(rows) // 2][0]}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--packages", type=Path, help="a folder that holds the packages already")
    parser.add_argument("--profile", choices=PROFILES, default="usual")
    parser.add_argument("--crates", help="only these of CRATES, comma-separated")
    args = parser.parse_args()
    chosen = args.crates.split(",") if args.crates else list(CRATES)
    if unknown := set(chosen) - set(CRATES):
        parser.error(f"--crates names {', '.join(sorted(unknown))}; known are {', '.join(CRATES)}")
    folder = args.folder.resolve()
    if args.packages and not (folder / "root").is_dir():
        unpack(args.packages, folder / "root")
    tree = folder / "tree"
    outputs = workspace(fetch(folder), tree, PROFILES[args.profile], chosen)
    measure(*build(tree, outputs, folder))


if __name__ == "__main__":
    main()
