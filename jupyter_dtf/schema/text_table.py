"""Formats rows of text as a table: aligned for a terminal, or as HTML for a notebook. Pure functions."""

from __future__ import annotations

import html
from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Format rows, of which the first is the header, as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def as_html(rows: Sequence[Sequence[str]], caption: str, notes: Sequence[str] = ()) -> str:
    """Format rows as a table with a caption, and notes as paragraphs below it. All text is escaped."""
    head, *body = rows
    first = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    lines = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in body)
    under = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{first}</tr></thead>"
        f"<tbody>{lines}</tbody></table>{under}"
    )
