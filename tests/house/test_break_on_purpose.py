"""The script that breaks the engine still finds what it breaks."""

from __future__ import annotations

import importlib.util

from source_tree import ROOT


def test_each_question_in_c_stands_where_its_switch_is_put() -> None:
    """The C files hold each text that scripts/native_faults.py wraps, once."""
    spec = importlib.util.spec_from_file_location("native_faults", ROOT / "scripts" / "native_faults.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for switch in module.SWITCHES:
        assert (module.NATIVE / switch.file).read_text().count(switch.text) == 1, (switch.file, switch.text)
    assert len(module.NUMBERS) == sum(len(switch.sites) for switch in module.SWITCHES)
