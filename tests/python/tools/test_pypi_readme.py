"""Tests of the README for PyPI."""

from __future__ import annotations

import re

from tools.pypi_readme import README, with_absolute_links

REPOSITORY = "https://example.org/somebody/jupyter_dtf"


def test_every_relative_link_leads_to_the_repository() -> None:
    before = README.read_text()
    after = with_absolute_links(before, REPOSITORY, "v0.2.0")
    targets = re.findall(r"\]\(([^)\s]+)\)", after)
    assert len(targets) == len(re.findall(r"\]\(([^)\s]+)\)", before))
    assert all(target.startswith(("https://", "#")) for target in targets)
    assert f"]({REPOSITORY}/blob/v0.2.0/docs/faq.md)" in after
    assert f"]({REPOSITORY}/raw/v0.2.0/docs/images/dashboard.png)" in after


def test_a_badge_is_a_picture_in_a_link() -> None:
    text = "[![License](license.svg)](LICENSE), [here](#there)"
    assert with_absolute_links(text, REPOSITORY, "v1") == (
        f"[![License]({REPOSITORY}/raw/v1/license.svg)]({REPOSITORY}/blob/v1/LICENSE), [here](#there)"
    )
