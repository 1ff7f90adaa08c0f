"""The one part of the build that pyproject.toml cannot say: the C extension with the frame hook."""

from __future__ import annotations

from setuptools import Extension, setup

NATIVE = "dynexplore/engine/native"

setup(
    ext_modules=[
        Extension(
            name="dynexplore.engine.native._frame_hook",
            sources=[
                f"{NATIVE}/{name}.c"
                for name in (
                    "c_stack", "cache", "dict_guard", "frame_hook", "guard_walk", "lookup_rows", "region", "tail_call", "type_guard"
                )
            ],
            depends=[f"{NATIVE}/compat.h", f"{NATIVE}/dict_check.h", f"{NATIVE}/native.h"],
            extra_compile_args=[
                "-std=c11",
                "-O3",
                "-fvisibility=hidden",
                "-Wall",
                "-Wextra",
                "-Werror",
                # CPython's own headers and calling conventions leave parameters unused.
                "-Wno-unused-parameter",
            ],
        )
    ]
)
