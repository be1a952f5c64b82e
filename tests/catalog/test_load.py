from pathlib import Path

import pytest

from refactorbench.catalog.load import list_tasks, load_task
from refactorbench.errors import TaskError

T, C, B = "tasks/toy-rust/task.toml", "audit_criteria/toy-rust.toml", "verifiers/toy-rust.toml"


def edit(root: Path, name: str, old: str, new: str) -> None:
    """Replace the first `old`, which must be there, in one of the root's files."""
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new, 1))


def test_a_valid_task_loads(root: Path) -> None:
    loaded = load_task(root, "toy-rust")
    assert loaded.task.id == loaded.criteria.task == loaded.briefs.task == "toy-rust"
    assert loaded.folder == root / "tasks" / "toy-rust"
    assert "1.5 hours" in loaded.instruction
    assert list_tasks(root) == ("toy-rust",)


@pytest.mark.parametrize("name", ["toy-rost", "../toy-rust", "", "zzz"])
def test_an_unknown_task_gets_the_list(root: Path, name: str) -> None:
    with pytest.raises(TaskError, match=r"is unknown.*the tasks here are toy-rust") as e:
        load_task(root, name)
    assert ("did you mean 'toy-rust'" in str(e.value)) == (name in ("toy-rost", "../toy-rust"))


# file, what is there, what is put there, what must be said
BROKEN = [
    (T, 'id = "toy-rust"', 'id = "toy-go"', "id is 'toy-go', but the folder is toy-rust"),
    (T, "0" * 64, "0" * 63, "state_a.sha256 is '000"),
    (T, "toy_1.0.orig.tar.gz", "../x.tar.gz", "a plain name"),
    (T, "budget_hours = 1.5", "budget_hours = 0", "budget_hours is 0"),
    (T, "budget_hours = 1.5", "budget_hours = nan", "budget_hours is nan"),
    (T, "budget_hours = 1.5", "budget_hours = 15", "does not say '15 hours'"),
    (T, 'generator =', 'minimum_checks = -1\ngenerator =', "minimum_checks is -1"),
    (T, 'generator =', 'largest_module_share = 25.0\ngenerator =', "largest_module_share is 25.0"),
    (T, "build/target.sh", "build/targt.sh", "target.script is 'build/targt.sh', and there is no such file (did you"),
    (T, "build/state_a.sh", "/bin/sh", "reference.script is '/bin/sh', which lies outside"),
    (T, "drivers/call.c", "../../../x.c", "drivers.sources is '../../../x.c', which lies outside"),
    (T, "drivers/call.c", "drivers/none.c", "drivers.sources is 'drivers/none.c', and there is no such file"),
    (T, "checks/generate.py", "checks/none.py", "generator is 'checks/none.py'"),
    (T, "wall_s", "wal_s", "unknown key 'limits.wal_s' (did you mean 'wall_s'?)"),
    (T, '[runtime]', '[[variants]]\nid = "o0"\ntoolchain = []\nenv = {}\n\n[runtime]', "variants: id 'o0' occurs"),
    ("tasks/toy-rust/checks/generate.py", "def draw", "def drow", "has no function `draw`"),
    ("tasks/toy-rust/checks/generate.py", "def fixed(seed)", "def fixed(seed", "generate.py, line 1: SyntaxError"),
    ("tasks/toy-rust/instruction.md", "1.5 hours", "11.5 hours", "does not say '1.5 hours'"),
    (C, 'task = "toy-rust"', 'task = "toy"', "task is 'toy', but the file is toy-rust.toml"),
    (C, 'id = "rest"', 'id = "builds"', "criterion: id 'builds' occurs 2 times"),
    (C, 'special = "builds"', "", "special = \"builds\" is set on no criterion"),
    (C, 'eyes = ["source", "build", "runtime"]', 'eyes = ["source"]\nspecial = "builds"', "is set on builds, rest"),
    (C, 'eyes = ["build"]', "eyes = []", "criterion 'builds' has eyes = []"),
    (C, 'eyes = ["build"]', 'eyes = ["build", "build"]', "criterion 'builds' has eyes = ['build', 'build']"),
    (C, 'kinds = ["source-remains", ', 'kinds = [', "no criterion lists kind 'source-remains', so a proof"),
    (C, '"source-remains"', '"source-remain"', "lists kind 'source-remain' (did you mean 'source-remains'?)"),
    (C, 'question = "Is it', 'required = false\nquestion = "Is it', None),
    (B, 'task = "toy-rust"', 'task = "toy"', "task is 'toy', but the file is toy-rust.toml"),
    (B, 'id = "v2"', 'id = "v1"', "direction: id 'v1' occurs 2 times"),
    (B, 'strategy = "any"', 'strategy = ""', "directions without a strategy are v1, v6: the last one alone"),
    (B, 'strategy = ""', 'strategy = "any"', "directions without a strategy are none"),
    (B, 'strategy = "any"', 'strategy = "eny"', "direction 'v1' has strategy 'eny' (did you mean 'any'?)"),
    (B, '["clock"]', '["clok"]', "scope.deny_rules has 'clok' (did you mean 'clock'?)"),
    (B, "toy-rust.py", "toy-rost.py", "module is 'toy-rost.py', and there is no such file (did you mean 'toy"),
    ("verifiers/toy-rust.py", "DENY", "DENIED", "has no dict `DENY`"),
    ("verifiers/toy-rust.py", "STRATEGIES = {'any': None}", "STRATEGIES = 1 / 0", "line 1: ZeroDivisionError"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "wanted"), BROKEN)
def test_each_fault_is_named_alone(root: Path, file: str, old: str, new: str, wanted: str | None) -> None:
    edit(root, file, old, new)
    if wanted is None:
        load_task(root, "toy-rust")
        return
    with pytest.raises(TaskError) as e:
        load_task(root, "toy-rust")
    assert wanted in str(e.value)


@pytest.mark.parametrize(
    "file", [T, C, B, "tasks/toy-rust/instruction.md", "tasks/toy-rust/build/target.sh", "verifiers/toy-rust.py"]
)
def test_each_missing_file_is_named(root: Path, file: str) -> None:
    (root / file).unlink()
    with pytest.raises(TaskError, match=Path(file).name.replace(".", r"\.") if file != T else "is unknown"):
        load_task(root, "toy-rust")


def test_no_required_criterion(root: Path) -> None:
    text = (root / C).read_text().replace("question =", "required = false\nquestion =")
    (root / C).write_text(text)
    with pytest.raises(TaskError, match="no criterion is required"):
        load_task(root, "toy-rust")


def test_a_criterion_without_kinds(root: Path) -> None:
    (root / C).write_text((root / C).read_text() + (
        '\n[[criterion]]\nid = "idle"\ntitle = "t"\nquestion = "q"\neyes = ["source"]\nkinds = []\n'
    ))  # fmt: skip
    with pytest.raises(TaskError, match="criterion 'idle' lists no kinds"):
        load_task(root, "toy-rust")


def test_five_or_seven_directions_are_refused(root: Path) -> None:
    text = (root / B).read_text()
    direction = text[text.index("\n[[direction]]") : text.index('\n[[direction]]\nid = "v2"')]
    for changed, count in ((text.replace(direction, ""), 5), (text.replace(direction, direction * 2), 7)):
        (root / B).write_text(changed)
        with pytest.raises(TaskError, match=f"{count} directions: the score counts exactly 6"):
            load_task(root, "toy-rust")


def test_faults_of_all_files_are_told_at_once(root: Path) -> None:
    edit(root, T, "wall_s", "wal_s")
    edit(root, C, 'id = "rest"', 'id = "builds"')
    edit(root, B, 'strategy = "any"', 'strategy = "eny"')
    (root / "tasks/toy-rust/instruction.md").unlink()
    with pytest.raises(TaskError, match="task toy-rust has 4 problems:") as e:
        load_task(root, "toy-rust")
    assert len(e.value.problems) == 4


def test_loading_leaves_nothing_in_the_task(root: Path) -> None:
    before = sorted(root.rglob("*"))
    load_task(root, "toy-rust")
    assert sorted(root.rglob("*")) == before
