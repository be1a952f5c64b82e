"""A model is used only where it is named, with its credentials checked before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from refactorbench.errors import UsageError
from refactorbench.llm.models import ModelName, check_credentials, open_model, parse_name
from refactorbench.llm.protocol import CredentialsMissing

KEYS = {"ANTHROPIC_API_KEY": "sk-1", "OPENAI_API_KEY": "sk-2"}


def test_names_say_provider_model_and_server() -> None:
    assert parse_name("anthropic/some-model") == ModelName("anthropic", "some-model")
    assert parse_name("openai/ft:x:y") == ModelName("openai", "ft:x:y")
    assert parse_name("scripted/runs/a.jsonl") == ModelName("scripted", "runs/a.jsonl")
    assert parse_name("scripted//abs/a.jsonl") == ModelName("scripted", "/abs/a.jsonl")
    assert parse_name("chat/Org/Model@http://127.0.0.1:8000/v1") == ModelName(
        "chat", "Org/Model", "http://127.0.0.1:8000/v1"
    )
    assert parse_name("chat/m@2@https://host/v1").rest == "m@2"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "anthropic/NAME"),
        ("some-model", "anthropic/NAME"),
        ("antropic/x", "did you mean 'anthropic'"),
        ("openai/", "openai/NAME"),
        ("chat/model", "chat/NAME@BASE_URL"),
        ("chat/@http://127.0.0.1/v1", "chat/NAME@BASE_URL"),
        ("chat/model@http://", "no base URL"),
        ("chat/model@ftp://x", "chat/NAME@BASE_URL"),
    ],
)
def test_a_wrong_name_says_how_models_are_named(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as e:
        open_model(name, environ=KEYS)
    assert "nothing is started" in str(e.value)


@pytest.mark.parametrize(("name", "variable"), [("anthropic/m", "ANTHROPIC_API_KEY"), ("openai/m", "OPENAI_API_KEY")])
def test_a_missing_key_is_told_before_anything_starts(name: str, variable: str) -> None:
    others = {k: v for k, v in KEYS.items() if k != variable}
    for environ in ({}, {variable: "  "}, others):
        with pytest.raises(CredentialsMissing, match=f"{variable}.*nothing is started.*set") as e:
            check_credentials(name, environ)
        assert e.value.exit_status == 2
        with pytest.raises(CredentialsMissing):
            open_model(name, environ=environ)
    check_credentials(name, {variable: "sk"})


def test_a_token_serves_instead_of_a_key() -> None:
    check_credentials("anthropic/m", {"ANTHROPIC_AUTH_TOKEN": "t"})
    assert open_model("anthropic/m", environ={"ANTHROPIC_AUTH_TOKEN": "t"}).name == "anthropic/m"


def test_a_wrong_base_url_is_told_before_anything_starts() -> None:
    with pytest.raises(UsageError, match=r"ANTHROPIC_BASE_URL: 'localhost:1' is no base URL"):
        check_credentials("anthropic/m", {**KEYS, "ANTHROPIC_BASE_URL": "localhost:1"})


def test_a_chat_server_needs_no_key() -> None:
    check_credentials("chat/m@http://127.0.0.1:9/v1", {})


def test_a_script_is_read_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the script"):
        check_credentials(f"scripted/{tmp_path}/none.jsonl", {})


def test_no_client_library_loads_until_its_provider_is_named(tmp_path: Path) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text('{"say": "done"}\n')
    code = f"""
import sys
import refactorbench.cli.main
from refactorbench.llm.models import check_credentials, open_model
import refactorbench.llm.scripted, refactorbench.llm.prices
def loaded(): return sorted({{m.split('.')[0] for m in sys.modules}} & {{'anthropic', 'openai', 'httpx2', 'pydantic'}})
env = {KEYS!r}
check_credentials('anthropic/m', env); check_credentials('openai/m', env)
open_model('scripted/{script}', environ=env)
print(loaded())
open_model('chat/m@http://127.0.0.1:9/v1', environ=env)
print('openai' in loaded(), 'anthropic' in loaded())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True False"]


def test_what_a_model_shows_of_itself_holds_no_key() -> None:
    for name in ("anthropic/m", "openai/m"):
        model = open_model(name, environ={"ANTHROPIC_API_KEY": "sk-hidden", "OPENAI_API_KEY": "sk-hidden"})
        assert "sk-hidden" not in repr(model) + repr(vars(model))


def test_a_base_url_with_a_password_is_refused_and_not_repeated() -> None:
    for name, environ in (
        ("chat/m@http://me:letmein99@127.0.0.1/v1", {}),
        ("anthropic/m", {**KEYS, "ANTHROPIC_BASE_URL": "https://me:letmein99@host"}),
    ):
        with pytest.raises(UsageError, match="holds a name or a password") as caught:
            check_credentials(name, environ)
        assert "letmein99" not in str(caught.value)
