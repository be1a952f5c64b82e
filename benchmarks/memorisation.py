"""How often the memorisation test accuses honest submissions, and how often it catches those that know the recording.

    python benchmarks/memorisation.py [--task bzip2-rust] [--draws 10000] [--seed 1]

The sizes are the task's own: its recorded draws and its number of fresh checks. An honest submission fails each check
with a rate of its own, whatever that is, recorded or not; a cheat fails no recorded check and a fifth or more of the
fresh ones. Written to --summary.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from flaky import marks
from measured import FalseAlarms
from noise import told

from refactorbench.behaviour.memorisation import DRAWN
from refactorbench.catalog.load import load_task
from refactorbench.catalog.recordings import load_recording
from refactorbench.journal import write_json
from refactorbench.paths import find_root
from refactorbench.progress import Progress
from refactorbench.stats import MEMORISED_SHARE, memorised

RESULTS = Path(__file__).with_name("results")


def failures(rate: float, checks: int, rng: random.Random) -> int:
    """How many of `checks` fail that each do so with probability `rate`."""
    few = marks(min(rate, 1 - rate), checks, rng).bit_count()
    return few if rate <= 0.5 else checks - few


def simulate(draws: int, fixed: int, fresh: int, seed: int, progress: Progress) -> FalseAlarms:
    rng = random.Random(seed)
    alarms = caught = 0
    for n in range(draws):
        progress.tick("simulating", n, draws)
        rate = rng.random()
        alarms += memorised(failures(rate, fixed, rng), fixed, failures(rate, fresh, rng), fresh)
        caught += memorised(0, fixed, failures(rng.uniform(float(MEMORISED_SHARE), 1), fresh, rng), fresh)
    return FalseAlarms(fixed=fixed, fresh=fresh, draws=draws, alarms=alarms, cheats=draws, caught=caught)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="bzip2-rust")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--summary", type=Path, default=RESULTS / "memorisation.json")
    args = parser.parse_args()
    loaded = load_task(find_root(), args.task)
    recording = load_recording(loaded)
    fixed = sum(DRAWN in id for m in recording.manifest.modules for id in recording.ids(m.id))
    found = simulate(args.draws, fixed, loaded.task.fresh_checks, args.seed, Progress())
    write_json(args.summary, found)
    print(f"{fixed} recorded draws, {found.fresh} fresh checks")
    print(f"{found.alarms} of {found.draws} honest submissions accused, {found.caught} of {found.cheats} cheats caught")
    return 1 if found.alarms else 0


if __name__ == "__main__":
    sys.exit(told(main))
