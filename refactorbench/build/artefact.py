"""From a built tree to a content-addressed product tree."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from refactorbench.build.model import artefact_dir
from refactorbench.build.places import TREE, Places, below, regular
from refactorbench.errors import HarnessError, TaskError
from refactorbench.hashing import tree_digest

EXECUTABLE_FOLDERS = ("bin", "sbin", "libexec")


class OutputMissing(Exception):
    """The recipe ended well and an output isn't there, or isn't a file of the tree: the message is the cause."""


def collect(outputs: Mapping[str, str], places: Places, product: Path) -> None:
    """Copy the recipe's outputs into `product` (bin/ 0755, all else 0644). Raises OutputMissing."""
    for target, source in sorted(outputs.items()):
        parts = PurePosixPath(target).parts
        if not parts or target.startswith("/") or ".." in parts:
            raise TaskError(f"outputs names the product path '{target}': it must be relative, without '..'")
        inside = places.resolve(source, TREE)
        if not below(inside, TREE):
            raise OutputMissing(f"output {source} leads out of the tree, to {inside}")
        host = places.host(inside)
        if host is None or not (host.exists() or host.is_symlink()):
            raise OutputMissing(f"output {source} is not there after the build")
        if not regular(host):
            raise OutputMissing(f"output {source} is not a regular file")
        path = product / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(host, path, follow_symlinks=False)
        path.chmod(0o755 if parts[0] in EXECUTABLE_FOLDERS else 0o644)
    for folder in [product, *(p for p in product.rglob("*") if p.is_dir())]:
        folder.chmod(0o755)


def store(product: Path, cache: Path) -> tuple[str, Path]:
    """Move `product` into the cache under its digest, atomically; return (digest, its place there)."""
    digest = tree_digest(product)
    home = artefact_dir(cache, digest)
    place = home / "product"
    if place.is_dir() and tree_digest(place) == digest:
        shutil.rmtree(product)
        return digest, place
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        staged = home.parent / f".{digest[:16]}.{uuid.uuid4().hex}"
        staged.mkdir()
        shutil.move(product, staged / "product")
        if home.exists():  # damaged since: what is there no longer has this digest
            home.rename(home.with_name(f".damaged.{uuid.uuid4().hex}"))
        staged.rename(home)
    except OSError as e:
        if place.is_dir() and tree_digest(place) == digest:  # another process was first
            return digest, place
        raise HarnessError(f"cannot store the artefact in {home.parent}: {e.strerror}; free space and resume") from e
    return digest, place
