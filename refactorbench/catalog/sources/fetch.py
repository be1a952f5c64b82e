"""From a pinned source to an unpacked tree in the cache; offline once it is there."""

from __future__ import annotations

from pathlib import Path

from refactorbench.catalog.models import StateASource
from refactorbench.catalog.sources import debian
from refactorbench.catalog.sources.cache import Progress, cached_archive, cached_tree, keep_tree, lock


def fetch_state_a(source: StateASource, cache: Path, progress: Progress) -> Path:
    """Return the folder of State A's unpacked tree, for reading only; its digest is `source.tree_sha256`.

    Goes to the network only when neither tree nor archive is in the cache. `progress` gets one line per long step.
    HarnessError when the archive can't be had, TaskError when it isn't what the task says.
    """
    with lock(cache, f"tree-{source.tree_sha256}"):
        tree = cached_tree(source, cache)
        if tree is not None:
            return tree
        with lock(cache, f"source-{source.sha256}"):
            archive = cached_archive(source, cache) or debian.fetch_archive(source, cache, progress)
        progress(f"unpacking {source.archive}")
        return keep_tree(source, cache, archive)
