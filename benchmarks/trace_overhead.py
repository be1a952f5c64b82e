"""What the tracer costs a build: bzip2-rust's solution (or another tree of the task), with and without it in turn.

    python benchmarks/trace_overhead.py [--task bzip2-rust] [--rounds 5] [--tree DIR]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from refactorbench.agents.collect import collect
from refactorbench.build import room as rooms
from refactorbench.build.toolchain import find
from refactorbench.catalog.load import load_task
from refactorbench.paths import cache_dir, find_root
from refactorbench.sandbox import BubblewrapSandbox


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="bzip2-rust")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tree", type=Path)
    args = parser.parse_args()
    loaded = load_task(find_root(), args.task)
    recipe, sandbox = loaded.task.target, BubblewrapSandbox()
    toolchain = find(recipe.toolchain)
    script = (loaded.folder / recipe.script).read_bytes()
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        collect(args.tree or loaded.folder / "solution", tree, loaded.task.exclude)
        for _ in range(args.rounds):
            for traced in (False, True):
                folder = Path(scratch) / "room"
                room = rooms.prepare(folder, tree, script, toolchain, cache_dir(), {}, False)
                done = rooms.run(room, recipe, recipe.env, sandbox, traced=traced)
                if cause := rooms.cause(done, room.log):
                    raise SystemExit(f"the build failed, so nothing is compared: {cause}")
                seconds[traced].append(done.wall_s)
        rooms.remove(folder)
    one, two = statistics.median(seconds[False]), statistics.median(seconds[True])
    print(f"without {one:.2f} s, traced {two:.2f} s, ratio {two / one:.2f} ({args.rounds} rounds)")


if __name__ == "__main__":
    main()
