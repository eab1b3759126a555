from __future__ import annotations

import pytest

from jupyter_dtf.schema.run_names import again, numbered


@pytest.mark.parametrize(
    ("name", "taken", "expected"),
    [
        ("mlp", [], "mlp"),
        ("mlp", ["cnn", "mlp_2", "mlp2", "my mlp"], "mlp"),
        ("mlp", ["mlp"], "mlp 2"),
        ("mlp", ["mlp 7", "mlp", "mlp 3"], "mlp 8"),  # numbers are not reused, even if runs are deleted
        ("mlp", ["mlp 02", "mlp 1234567890"], "mlp"),
        ("train (1).py", ["train (1).py"], "train (1).py 2"),
    ],
)
def test_numbers_go_on(name: str, taken: list[str], expected: str) -> None:
    assert numbered(name, taken) == expected


def test_what_goes_on_counts_on() -> None:
    assert again("mlp", ["mlp"]) == "mlp 2"
    assert again("mlp 2", ["mlp", "mlp 2"]) == "mlp 3"
    assert again("lr 0.5", ["lr 0.5"]) == "lr 0.5 2"
