"""Redacts a program's arguments for its record: values whose names or formats suggest that they are secret."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET = re.compile(
    r".*(?:password|passwd|passphrase|passcode|secret|credential)s?"
    r"|.*(?:token|apikey|accesskey|privatekey|secretkey)"
    r"|pass|pwd|pw|auth|oauth|authorization|bearer|jwt|cookies?"
)
_ACCESS_TOKENS = frozenset({"access", "api", "auth", "refresh", "secret"})
"""Words that make a following ``tokens`` mean credentials rather than tokens of text."""
_OPEN_KEYS = re.compile(
    "batch|column|data|dict|feature|group|id|image|input|join|label|map|output|partition|primary|public|row|sample"
    "|sort|target|text"
)
"""Words that make a following ``key`` mean an identifier or a sort key rather than a secret."""

_ACCOUNT = re.compile(r"//[^/\s@:]*:[^/\s]*@")
_BEARER = re.compile(r"\b(bearer\s+)[^\s\"']+", re.IGNORECASE)
_NAMED = re.compile(r"([A-Za-z_][\w.-]*)[\"']?\s*[:=]\s*")
_VALUE = re.compile(r"(?:(?:bearer|basic|digest|token)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s;&,\"'}]+)", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Return whether the whole words of a name suggest a secret value: ``hf_token`` does, ``max_tokens`` does not."""
    words = [word.lower() for word in _WORD.findall(name)]
    for before, word in zip(["", *words], words, strict=False):
        if _SECRET.fullmatch(word) or (word == "tokens" and before in _ACCESS_TOKENS):
            return True
    return bool(words) and words[-1] in ("key", "keys") and (len(words) == 1 or not _OPEN_KEYS.fullmatch(words[-2]))


def without_secrets(text: str) -> str:
    """Return a string with ``***`` in place of passwords in URLs, ``Bearer`` tokens, and values after a secret name."""
    text = _ACCOUNT.sub(lambda found: f"{found[0].partition(':')[0]}:{HIDDEN}@", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    parts, end = [], 0
    for found in _NAMED.finditer(text):
        if found.start() >= end and is_secret(found[1]) and (value := _VALUE.match(text, found.end())) is not None:
            parts += [text[end : found.end()], HIDDEN]
            end = value.end()
    return "".join([*parts, text[end:]])


def words_without_secrets(words: Iterable[str]) -> list[str]:
    """Return a command line with ``***`` in place of the secret values in ``--name value`` and ``--name=value``."""
    shown: list[str] = []
    is_next = False
    for word in words:
        name, equals, _ = word.partition("=")
        is_option = word.startswith("-") and not word[1:2].isdigit()
        if is_next and not is_option:
            shown.append(HIDDEN)
        elif equals and not re.search(r"[\s:/]", name) and is_secret(name):
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(without_secrets(word))
        is_next = is_option and not equals and is_secret(name)
    return shown
