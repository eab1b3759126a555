"""Every import of a private module of Keras or TensorFlow has a comment with the version and the reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRIVATE = re.compile(r"(keras\.src|tensorflow\.python)(\.|$)")
REASON = re.compile(r"# (Keras 3|TensorFlow 2)\.\d+: .*\.$")
"""Such as ``# Keras 3.15: why no public name is sufficient.``"""


def private_imports(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line number of each private import, the module, and the text of the line above it."""
    text = path.read_text()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (
            (node.lineno, module, lines[node.lineno - 2].strip()) for module in modules if PRIVATE.match(module)
        )


def test_each_says_its_version_and_why() -> None:
    found = [(path, *each) for path in sorted((ROOT / "jupyter_dtf").rglob("*.py")) for each in private_imports(path)]
    assert found
    silent = [
        f"{path.relative_to(ROOT)}:{line}: {module}" for path, line, module, above in found if not REASON.match(above)
    ]
    assert not silent
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module}: {above}"
        for path, line, module, above in found
        if above.startswith("# Keras") != module.startswith("keras")
    ]
    assert not wrong


def test_one_without_a_reason_is_seen(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import keras\nfrom keras.src import tree\n\n# Keras 3.15: why.\nimport keras.src.models\n")
    assert list(private_imports(program)) == [
        (2, "keras.src.tree", "import keras"),
        (5, "keras.src.models", "# Keras 3.15: why."),
    ]
