"""State A's sources: fetched once by digest into the cache, checked out for agents."""

from refactorbench.catalog.sources.cache import Progress, archive_path, tree_path
from refactorbench.catalog.sources.checkout import Checkout, checkout
from refactorbench.catalog.sources.fetch import fetch_state_a

__all__ = ["Checkout", "Progress", "archive_path", "checkout", "fetch_state_a", "tree_path"]
