"""The offline panel: nobody to ask, so the witnesses decide alone and LEADs go to people."""

from __future__ import annotations

from refactorbench.audit.verdict import PanelKind
from refactorbench.catalog.models import Criteria


class OfflinePanel:
    kind: PanelKind = "offline"

    def cast(self, criteria: Criteria) -> None:
        return None
