"""Where the suite of all backends is known to fail in the interpreter, and why."""

from __future__ import annotations

import pytest

KNOWN = {
    "test_halves_are_rounded_once": ("bfloat16", "the interpreter cuts bfloat16 off where devices round"),
    "test_a_primitive_is_right_or_refused": ("lgamma", "float64 loses digits beside lgamma's zeros at 1 and 2"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        part, reason = KNOWN.get(item.name.partition("[")[0], ("", ""))
        if part and part in item.name and "test_conformance" in item.nodeid:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
