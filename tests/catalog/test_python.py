import sys
from pathlib import Path

import pytest

from refactorbench.catalog.load import load_task
from refactorbench.catalog.python import PREFIX, generator, load_module, strategies
from refactorbench.errors import TaskError


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_module_runs_under_a_private_name_and_the_path_stays(tmp_path: Path) -> None:
    before = list(sys.path)
    module = load_module(write(tmp_path / "generate.py", "X = 1\nNAME = __name__\nFILE = __file__\n"))
    assert module.X == 1
    assert Path(module.FILE) == tmp_path / "generate.py"
    assert module.NAME.startswith(PREFIX) and "generate" not in sys.modules
    assert sys.path == before
    assert list(tmp_path.iterdir()) == [tmp_path / "generate.py"]  # no __pycache__


def test_two_tasks_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    modules = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        modules.append(load_module(write(tmp_path / folder / "generate.py", f"X = '{folder}'\n")))
    assert [m.X for m in modules] == ["a", "b"]


def test_once_per_content(tmp_path: Path) -> None:
    path = write(tmp_path / "m.py", "X = []\n")
    assert load_module(path) is load_module(path)
    write(path, "X = 2\n")
    assert load_module(path).X == 2


def test_classes_that_look_their_module_up_work(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nimport dataclasses\nimport msgspec\n"
        "@dataclasses.dataclass\nclass D:\n    x: int\n"
        "class S(msgspec.Struct):\n    y: D\n"
        "V = msgspec.convert({'y': {'x': 1}}, S)\n"
    )
    assert load_module(write(tmp_path / "m.py", text)).V.y.x == 1


def test_a_module_may_load_the_one_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "data.py", "WORDS = ('a',)\n")
    text = (
        "from pathlib import Path\nfrom refactorbench.catalog.python import load_module\n"
        "WORDS = load_module(Path(__file__).with_name('data.py')).WORDS\n"
    )
    assert load_module(write(tmp_path / "m.py", text)).WORDS == ("a",)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x = 1\ny = (\n", r"m\.py, line 2: SyntaxError"),
        ("x = 1\n\ndef f():\n    raise ValueError('no')\nf()\n", r"m\.py, line 4: ValueError: no"),
        ("import no_such_module_anywhere\n", r"m\.py, line 1: ModuleNotFoundError"),
        ("import json\n\njson.loads('{')\n", r"m\.py, line 3: JSONDecodeError"),
        ("raise SystemExit(0)\n", r"m\.py, line 1: SystemExit"),
        ("x = '\0'\n", r"m\.py, line 0: (ValueError|SyntaxError)"),
    ],
)
def test_an_error_names_file_and_line(tmp_path: Path, text: str, wanted: str) -> None:
    with pytest.raises(TaskError, match=wanted):
        load_module(write(tmp_path / "m.py", text))
    assert not any(getattr(m, "__file__", None) == str(tmp_path / "m.py") for m in list(sys.modules.values()))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"cannot read .*m\.py"):
        load_module(tmp_path / "m.py")


def test_generator_and_strategies_of_a_task(root: Path) -> None:
    loaded = load_task(root, "toy-rust")
    assert list(generator(loaded).fixed(1)) == []
    tables = strategies(loaded)
    assert set(tables.strategies) == {"any"} and set(tables.deny) == {"clock"}


@pytest.mark.parametrize("name", ["fixed", "draw"])
def test_a_generator_without_a_function_is_refused(root: Path, name: str) -> None:
    loaded = load_task(root, "toy-rust")
    path = root / "tasks/toy-rust/checks/generate.py"
    path.write_text(path.read_text().replace(f"def {name}", "def other"))
    with pytest.raises(TaskError, match=f"has no function `{name}`"):
        generator(loaded)
