from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from jupyter_dtf.client.run_trace import Trace
from jupyter_dtf.notebook.trace_svg import MAX_OPS, draw
from jupyter_dtf.schema.trace import TraceData, TracedOp, Transfer

SVG = "{http://www.w3.org/2000/svg}"
A, B = "/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"


def op(device: str, start_us: float, duration_us: float, name: str = "dense/MatMul") -> TracedOp:
    return TracedOp(step=3, op=name, op_type="MatMul", device=device, start_us=start_us, duration_us=duration_us)


def sent(start_us: float, size: int) -> Transfer:
    return Transfer(step=3, tensor="x", source=A, target=B, bytes=size, start_us=start_us, duration_us=100)


DATA = TraceData(ops=[op(A, 0, 400), op(A, 200, 400), op(B, 500, 500)], transfers=[sent(400, 2048)])


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def bars(picture: str) -> list[ET.Element]:
    return [bar for bar in ET.fromstring(picture).iter(f"{SVG}rect") if bar.find(f"{SVG}title") is not None]


def test_a_row_for_each_device_and_a_bar_for_each_operation() -> None:
    picture = draw(DATA)
    assert {"worker:0 CPU:0", "worker:1 CPU:0", "step 3 · 3 operations · 1 transfers, 2.0 KiB · 1 ms"} <= set(
        texts(picture)
    )
    first, overlapping, other = bars(picture)
    assert float(overlapping.get("x", 0)) > float(first.get("x", 0))
    assert overlapping.get("y") != first.get("y")
    assert float(other.get("width", 0)) / float(first.get("width", 0)) == 500 / 400
    assert first.get("fill") != other.get("fill")
    assert first.findtext(f"{SVG}title") == "dense/MatMul (MatMul), step 3, 400 µs"


def test_a_transfer_goes_from_row_to_row_with_its_bytes() -> None:
    (group,) = [g for g in ET.fromstring(draw(DATA)).iter(f"{SVG}g") if g.get("data-bytes")]
    assert group.get("data-bytes") == "2048"
    line = next(group.iter(f"{SVG}path")).get("d") or ""
    (x1, y1), (x2, y2) = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", line)]
    assert x2 > x1 and y2 > y1
    assert group.findtext(f"{SVG}text") == "2.0 KiB"


def test_labels_do_not_cover_one_another() -> None:
    data = TraceData(ops=DATA.ops, transfers=[sent(400 + index, 1000 + index) for index in range(5)])
    picture = draw(data)
    assert [text for text in texts(picture) if text.endswith(" B") or text.endswith("KiB")] == ["1004 B"]
    assert picture.count("data-bytes") == 5


def test_warnings_are_shown_and_text_is_escaped() -> None:
    picture = draw(TraceData(ops=[op(A, 0, 1, "<a>&b")], warnings=["<folded> & gone"] * 20))
    assert texts(picture).count("⚠ <folded> & gone") == 12
    assert "and 8 more: trace.warnings" in texts(picture)


def test_of_very_many_operations_the_longest() -> None:
    picture = draw(TraceData(ops=[op(A, index, 1 + index % 7) for index in range(MAX_OPS + 100)]))
    assert len(bars(picture)) == MAX_OPS
    assert "The 100 shortest operations are not drawn" in texts(picture)


def test_nothing_is_a_picture_too() -> None:
    assert "Nothing was traced" in texts(draw(TraceData()))


def test_text_for_a_terminal() -> None:
    text = repr(Trace(TraceData(ops=DATA.ops, transfers=DATA.transfers, warnings=["beware"])))
    assert text == "<Trace: 3 operations on 2 devices, 1 transfer>\nWarning: beware"
