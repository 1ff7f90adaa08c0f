"""What pyproject.toml cannot say: the C extension with the frame hook, and the tutorials that go into a wheel."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

NATIVE = "dynexplore/engine/native"
WARNINGS = [
    "-Wall",
    "-Wextra",
    # CPython's own headers and calling conventions leave parameters unused.
    "-Wno-unused-parameter",
]
if os.environ.get("DYNEXPLORE_STRICT"):  # as make builds it; another compiler than ours may warn of more
    WARNINGS.append("-Werror")

# what `import dynexplore` says as well; by its path, as nothing is installed yet
if why_not := runpy.run_path("dynexplore/engine/bytecode/versions/supported.py")["refusal"]():
    sys.exit(why_not)


class WithTutorials(build_py):
    """Puts the notebooks into the wheel, where `dynexplore lab` finds them."""

    def run(self) -> None:
        """Build, then copy; an editable install has the notebooks where they are."""
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib, "dynexplore", "tutorials")
            folder.mkdir(parents=True, exist_ok=True)
            for notebook in Path("notebooks").glob("*.ipynb"):
                shutil.copy(notebook, folder)


setup(
    cmdclass={"build_py": WithTutorials},
    ext_modules=[
        Extension(
            name="dynexplore.engine.native._frame_hook",
            sources=[
                f"{NATIVE}/{name}.c"
                for name in (
                    "c_stack", "cache", "dict_guard", "dict_versions", "frame_hook", "guard_walk", "lookup_rows", "region",
                    "sequence_guard", "set_table", "tail_call", "type_guard", "warning_filters",
                )
            ],
            depends=[f"{NATIVE}/compat.h", f"{NATIVE}/dict_check.h", f"{NATIVE}/native.h"],
            extra_compile_args=["-std=c11", "-O3", "-fvisibility=hidden", *WARNINGS],
        )
    ],
)
