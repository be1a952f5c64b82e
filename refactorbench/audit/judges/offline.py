"""The offline panel: nobody to ask, so the witnesses decide alone and LEADs go to people."""

from __future__ import annotations

from refactorbench.audit.docket import Docket
from refactorbench.audit.verdict import PanelKind
from refactorbench.catalog.models import Criteria


class OfflinePanel:
    kind: PanelKind = "offline"

    def votes(self, criteria: Criteria, docket: Docket) -> None:
        return None
