from pathlib import Path

import msgspec
import pytest

from refactorbench.catalog.load import load_panel, panel_fingerprint, panel_label
from refactorbench.catalog.models import Panel
from refactorbench.errors import TaskError

SHIPPED = Path(__file__).resolve().parents[2]


@pytest.fixture
def panels(tmp_path: Path) -> Path:
    folder = tmp_path / "verifiers" / "panels"
    folder.mkdir(parents=True)
    for name in ("offline", "quick"):
        (folder / f"{name}.toml").write_text((SHIPPED / "verifiers" / "panels" / f"{name}.toml").read_text())
    return folder


@pytest.mark.parametrize("name", ["offline", "quick"])
def test_the_shipped_panels_load(name: str) -> None:
    panel = load_panel(SHIPPED, name)
    assert panel.name == name
    assert len(panel.verifier) == 6
    assert panel.judges.kind == "none"


def test_the_offline_panel_has_the_canonical_budget() -> None:
    assert {(v.budget, v.cap_s) for v in load_panel(SHIPPED, "offline").verifier} == {(20_000, 3600.0)}


def test_an_unknown_panel_gets_the_list(panels: Path) -> None:
    with pytest.raises(TaskError, match=r"panel 'ofline' is unknown \(did you mean 'offline'\?\).*offline, quick"):
        load_panel(panels.parents[1], "ofline")


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ('name = "offline"', 'name = "other"', "name is 'other', but the file is offline.toml"),
        ('id = "v2"', 'id = "v1"', "verifier ids are v1, v1, v3"),
        ("budget = 20000", "budget = 0", "budget = 0"),
        ("cap_s = 3600.0", "cap_s = 3601.0", "cap_s = 3601.0"),
        ("budget =", "budgte =", "unknown key 'verifier[1].budgte' (did you mean 'budget'?)"),
        ('kind = "none"', 'kind = "lm"', "key 'judges.kind' is 'lm'"),
        ('kind = "none"', 'kind = "none"\nturns = 3', "judges.kind is \"none\""),
        ('kind = "none"', 'kind = "llm"\nmodels = ["a/b", "c/d"]', "judges.models are a/b, c/d"),
        ('kind = "none"', 'kind = "llm"\nturns = 1', "judges.turns is 1"),
        ('name = "offline"', 'name = "offline"\nprompt_version = "0"', "prompt_version is '0'"),
    ],
)
def test_a_faulty_panel_is_refused(panels: Path, old: str, new: str, wanted: str) -> None:
    path = panels / "offline.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(TaskError) as e:
        load_panel(panels.parents[1], "offline")
    assert wanted in str(e.value)


def test_a_panel_with_five_seats_is_refused(panels: Path) -> None:
    text = (panels / "offline.toml").read_text()
    (panels / "offline.toml").write_text(text[: text.rindex("[[verifier]]")])
    with pytest.raises(TaskError, match="the score counts 6"):
        load_panel(panels.parents[1], "offline")


def changes(panel: Panel) -> list[Panel]:
    seat = msgspec.structs.replace(panel.verifier[5], budget=20_001)
    slower = msgspec.structs.replace(panel.verifier[0], cap_s=60.0)
    return [
        msgspec.structs.replace(panel, name="other"),
        msgspec.structs.replace(panel, prompt_version="2"),
        msgspec.structs.replace(panel, verifier=(*panel.verifier[:5], seat)),
        msgspec.structs.replace(panel, verifier=(slower, *panel.verifier[1:])),
        msgspec.structs.replace(panel, verifier=tuple(reversed(panel.verifier))),
    ]


def test_the_fingerprint_tells_every_change(panels: Path) -> None:
    panel = load_panel(panels.parents[1], "offline")
    prints = [panel_fingerprint(p) for p in (panel, *changes(panel))]
    assert len(set(prints)) == len(prints)
    assert panel_label(panel) == f"offline-{prints[0][:12]}"


def test_comments_and_spacing_do_not_change_the_fingerprint(panels: Path) -> None:
    before = panel_fingerprint(load_panel(panels.parents[1], "offline"))
    path = panels / "offline.toml"
    path.write_text("# another comment\n\n" + path.read_text().replace(" = ", "   =   "))
    assert panel_fingerprint(load_panel(panels.parents[1], "offline")) == before
