"""Secrets in arguments are recognized by whole words of their names, and by their form in texts."""

from __future__ import annotations

import pytest

from jupyter_dtf.client.secrets_left_out import is_secret, without_secrets, words_without_secrets


def test_names_are_secret_by_their_whole_words() -> None:
    secret = "pwd auth authorization api-key apiKey access_key private_key passphrase wandb_key hf_token PGPASSWORD"
    assert [name for name in (*secret.split(), "--db.password", "access_tokens", "key") if not is_secret(name)] == []
    plain = "max_tokens tokenizer author sort_key num_key_value_heads compass_n keyframes passes monkey lr"
    assert [name for name in plain.split() if is_secret(name)] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://me:hunter2@h/db", "postgres://me:***@h/db"),
        ("redis://:p@ss@h and http://h:80/a@b", "redis://:***@h and http://h:80/a@b"),
        ("Bearer abc.d", "Bearer ***"),
        ("Authorization: Basic bWU6aHVudGVy", "Authorization: ***"),
        ("https://h/x?token=abc&n=3", "https://h/x?token=***&n=3"),
        ("host=h password='a b' user=me", "host=h password=*** user=me"),
        ('{"api_key": "k", "n": 1}', '{"api_key": ***, "n": 1}'),
        ("batch_size=3, ratio 1:2", "batch_size=3, ratio 1:2"),
    ],
)
def test_texts_have_no_secrets_of_known_forms(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_command_line_has_no_values_of_secret_options() -> None:
    words = ["--lr", "0.1", "--api-key", "k", "--password=a b,c", "--auth", "--token", "-1", "--header", "X: Bearer z"]
    words += ["wandb.key=q,r", "data.csv", "--max_tokens=5"]
    shown = [
        "--lr",
        "0.1",
        "--api-key",
        "***",
        "--password=***",
        "--auth",
        "--token",
        "***",
        "--header",
        "X: Bearer ***",
    ]
    assert words_without_secrets(words) == [*shown, "wandb.key=***", "data.csv", "--max_tokens=5"]
