from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from jupyter_dtf.client.search.trials import Trial
from jupyter_dtf.notebook.search_still import search_still


def picture(*values: float) -> ET.Element:
    trials = [Trial(number, "complete", {}, {"loss": value}, 1.0, "", "", "") for number, value in enumerate(values)]
    return ET.fromstring(search_still("a search", trials, ["loss"], [], [0]))


def circles(picture: ET.Element) -> int:
    return len(list(picture.iter("{http://www.w3.org/2000/svg}circle")))


@pytest.mark.parametrize("values", [(1e308, -1e308), (1.79e308,)])
def test_values_that_no_axis_has_room_for_are_in_the_table_alone(values: tuple[float, ...]) -> None:
    found = picture(*values)
    assert circles(found) == 0
    assert f"{values[0]:.4g}".split("e")[0] in "".join(found.itertext())
    assert int(found.get("height", 0)) < int(picture(1.0, 2.0).get("height", 0))
    assert circles(picture(1.0, 2.0)) == 2
