"""From a model's name to the model. Client libraries load only here, and only for the provider that was named.

    anthropic/NAME          Anthropic Messages        ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN; ANTHROPIC_BASE_URL
    openai/NAME             OpenAI Responses          OPENAI_API_KEY; OPENAI_BASE_URL
    chat/NAME@BASE_URL      OpenAI-compatible chat    REFACTORBENCH_CHAT_KEY where the server wants one
    scripted/FILE           plays a file of turns     nothing

A key in the environment starts nothing: a model is used only where its name is given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from refactorbench.errors import ToolMissing, UsageError, did_you_mean
from refactorbench.llm.protocol import ChatModel, CredentialsMissing
from refactorbench.llm.retry import Clock, Policy, Provider, RetriedModel, SystemClock

PROVIDERS = ("anthropic", "openai", "chat", "scripted")
CHAT_KEY = "REFACTORBENCH_CHAT_KEY"
_KEYS = {"anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "openai": ("OPENAI_API_KEY",)}
_BASE_URLS = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
}


class ModelName(msgspec.Struct, frozen=True):
    """`provider` is one of PROVIDERS; `rest` the model's name there, or the script's path; `base_url` for chat only."""

    provider: str
    rest: str
    base_url: str = ""


def parse_name(name: str) -> ModelName:
    """UsageError says how a model is named."""
    provider, _, rest = name.partition("/")
    if provider not in PROVIDERS or not rest:
        raise UsageError(
            f"model '{name}' is unknown{did_you_mean(provider, PROVIDERS)}: nothing is started; name it "
            "anthropic/NAME, openai/NAME, chat/NAME@BASE_URL or scripted/FILE"
        )
    if provider != "chat":
        return ModelName(provider, rest)
    at = max(rest.find("@http://"), rest.find("@https://"))
    if at <= 0:
        raise UsageError(
            f"model '{name}' names no server: nothing is started; write it chat/NAME@BASE_URL, for example "
            "chat/qwen@http://127.0.0.1:8000/v1"
        )
    return ModelName(provider, rest[:at], _checked_url(rest[at + 1 :], f"model '{name}'"))


def check_credentials(name: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise CredentialsMissing, or UsageError for a name or script that is wrong, before anything is started."""
    model = parse_name(name)
    keys = _KEYS.get(model.provider, ())
    if keys and not any(environ.get(k, "").strip() for k in keys):
        raise CredentialsMissing(
            f"model '{name}' needs a key, and {' and '.join(keys)} {'are' if len(keys) > 1 else 'is'} not set: nothing "
            f"is started; set {' or '.join(keys)}, or name another model"
        )
    if model.provider == "scripted":
        from refactorbench.llm.scripted import load_script

        load_script(Path(model.rest))
    if model.provider in _BASE_URLS:
        _base_url(model.provider, environ)


def open_model(
    name: str,
    *,
    effort: str | None = None,
    images: bool = False,
    extra: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
    policy: Policy | None = None,
    clock: Clock | None = None,
    idle_s: float | None = None,
) -> ChatModel:
    """The model called `name`, its credentials checked; no request is made.

    `effort` and the fields of `extra` are passed to the provider as they are. `images`: whether a chat server's model
    is shown images (the others always are). `idle_s`: seconds without an event after which a stream is cut off.
    """
    check_credentials(name, environ)
    clock = clock or SystemClock()
    provider = _provider(parse_name(name), name, effort, images, extra or {}, environ, clock, idle_s)
    return RetriedModel(provider, policy, clock)


def _provider(
    model: ModelName,
    name: str,
    effort: str | None,
    images: bool,
    extra: Mapping[str, Any],
    environ: Mapping[str, str],
    clock: Clock,
    idle_s: float | None,
) -> Provider:
    if model.provider == "scripted":
        from refactorbench.llm.scripted import Scripted, load_script

        return Scripted(name, load_script(Path(model.rest)), clock)
    try:
        from refactorbench.llm.adapter import Access

        access = partial(Access, name, model.rest, effort=effort, extra=extra, idle_s=idle_s)
        if model.provider == "anthropic":
            from refactorbench.llm.anthropic_messages import AnthropicMessages

            key = _set(environ, "ANTHROPIC_API_KEY")
            token = "" if key else _set(environ, "ANTHROPIC_AUTH_TOKEN")
            return AnthropicMessages(access(_base_url("anthropic", environ), api_key=key, auth_token=token))
        if model.provider == "openai":
            from refactorbench.llm.openai_responses import OpenAIResponses

            return OpenAIResponses(access(_base_url("openai", environ), api_key=_set(environ, "OPENAI_API_KEY")))
        from refactorbench.llm.openai_chat import OpenAIChat

        return OpenAIChat(access(model.base_url, api_key=_set(environ, CHAT_KEY), images=images))
    except ImportError as e:
        raise ToolMissing(f"model '{name}' needs the Python package '{e.name}': install refactorbench's own") from e


def _set(environ: Mapping[str, str], variable: str) -> str:
    return environ.get(variable, "").strip()


def _base_url(provider: str, environ: Mapping[str, str]) -> str:
    variable, default = _BASE_URLS[provider]
    return _checked_url(_set(environ, variable) or default, variable)


def _checked_url(url: str, where: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise UsageError(
            f"the base URL for {parts.hostname} holds a name or a password, which would be written down with the run: "
            f"nothing is started; leave it out, keys come from the environment ({CHAT_KEY} for a chat server)"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{where}: '{url}' is no base URL: nothing is started; write it like http://127.0.0.1:8000/v1")
    return url
