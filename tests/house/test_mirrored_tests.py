"""Where the test of a source file stands: in the mirrored place, or in a theme that the table below names.

`dynexplore/<room>/<file>.py` is tested by `tests/<room>/test_<file>.py`. What can only be seen through whole programs (a
tracker, a handler, a rule) is tested by a theme: the table says by which, for a folder or for one file. What has no behaviour
of its own (a contract, a table that others read) is named with its reason.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from source_tree import ROOT, modules

TESTS = ROOT / "tests"

# A folder or a file of dynexplore/ -> the tests that show it; the longest name counts.
THEMES: dict[str, tuple[str, ...]] = {
    "__main__": ("test_cli",),
    "cli_captures": ("test_cli", "watching/test_explaining"),
    "cli_files": ("test_cli",),
    "cli_outputs": ("test_cli",),
    "cli_program": ("test_cli",),
    "engine/bytecode/versions": ("engine/bytecode/test_versions", "engine/bytecode/test_reader"),
    "engine/graph/bodies": ("programs/test_checkpoint", "programs/test_cond"),
    "engine/graph/builder": ("programs/test_themes", "engine/graph/test_fake_mode"),
    "engine/graph/copies_for_backward": ("programs/test_read_before_writes",),
    "engine/graph/shapes": ("programs/test_symbolic_sizes",),
    "engine/graph/values_now": ("programs/test_data_dependent", "programs/test_arrays"),
    "engine/graph/written_nodes": ("programs/test_read_before_writes", "programs/test_shared_storage"),
    "engine/provenance/dictionaries": ("engine/translate/test_shared_dictionaries",),
    "engine/provenance/guards": ("engine/provenance/test_guard_check", "programs/test_modules"),
    "engine/provenance/module_guards": ("engine/native/test_guard_walk", "programs/test_modules"),
    "engine/provenance/storage_overlap": ("programs/test_shared_storage",),
    "engine/provenance/sources": ("engine/provenance/test_guard_check", "programs/test_objects"),
    "engine/runtime/equal_outputs": ("programs/test_equal_calls",),
    "engine/runtime/frame_facts": ("engine/runtime/test_decision",),
    "engine/runtime/missing_compiler": ("engine/runtime/test_backends",),
    "engine/runtime/observers": ("session/test_explain", "second_opinion/test_step_checker"),
    "session/torch_compiled": ("watching/test_recognized",),
    "tools/torch_runs": ("watching/test_recognized",),
    "watching/compiled_anew": ("watching/test_recognized",),
    "engine/tool_hooks": ("tools/test_printout", "tools/test_frame_record", "tools/test_repro_on_failure"),
    # the translator is seen through programs: each instruction has its own, each theme its file
    "engine/translate": ("programs/test_themes", "programs/test_loops_with_breaks", "engine/translate/test_resume"),
    "engine/translate/abandoned_generators": ("programs/test_abandoned_generators",),
    "engine/translate/assumptions": ("programs/test_assumptions",),
    "engine/translate/graph_call": ("programs/test_failing_operators",),
    "engine/translate/handlers": (
        "opcodes/test_calls", "opcodes/test_containers", "opcodes/test_control", "opcodes/test_names_and_operators",
    ),
    "engine/translate/narrator": ("recording/test_recording", "session/test_explain", "properties/test_watched_programs"),
    "engine/translate/resume_call": ("programs/test_tail_calls", "programs/test_tracebacks", "programs/test_live_stacks"),
    "engine/variables/containers": (
        "programs/test_containers", "programs/test_container_styles", "programs/test_iterators",
        "properties/test_container_programs",
    ),
    "engine/variables/contract": ("programs/test_themes", "programs/test_across_breaks", "programs/test_values_made_for_real"),
    "engine/variables/numpy_": ("programs/test_arrays", "properties/test_array_programs"),
    "engine/variables/numpy_/concrete_array": ("programs/test_known_arrays",),
    "engine/variables/objects": ("programs/test_objects", "programs/test_model_code"),
    "engine/variables/objects/context_manager": ("programs/test_with",),
    "engine/variables/objects/exception": ("programs/test_exceptions",),
    "engine/variables/objects/functional_rules": ("programs/test_builtins",),
    "engine/variables/objects/generator": ("programs/test_generators",),
    "engine/variables/objects/program_key": ("programs/test_keys_that_count",),
    "engine/variables/operators": ("programs/test_builtins", "programs/test_objects"),
    "engine/variables/all_rows": ("programs/test_themes",),
    "engine/variables/rules": ("programs/test_builtins",),
    "engine/variables/scalars": ("programs/test_builtins", "programs/test_themes"),
    "engine/variables/scalars/data_dependent": ("programs/test_data_dependent",),
    "engine/variables/scalars/extreme": ("programs/test_values_made_for_real",),
    "engine/variables/scalars/python_random": ("programs/test_python_random",),
    "engine/variables/scalars/symbolic_number": ("programs/test_symbolic_sizes",),
    "engine/variables/signatures": ("programs/test_builtins",),
    "engine/variables/torch_": ("programs/test_modules", "programs/test_torch_functions"),
    "engine/variables/torch_/autograd_function": ("programs/test_autograd_functions",),
    "engine/variables/torch_/checkpoint": ("programs/test_checkpoint",),
    "engine/variables/torch_/cond": ("programs/test_cond",),
    "engine/variables/torch_/input_state": ("programs/test_input_state",),
    "engine/variables/torch_/marked_tensor": ("programs/test_input_state",),
    "engine/variables/torch_/traced_body": ("programs/test_checkpoint", "programs/test_cond"),
    "engine/variables/torch_/optimizer": ("programs/test_training",),
    "engine/variables/torch_/vmap": ("programs/test_vmap",),
    "engine/variables/type_errors": ("programs/test_containers", "programs/test_builtins"),
    # a lens is one method of capture: they are compared with each other
    "lenses": ("lenses/test_compare", "lenses/test_comparison"),
    "lenses/compare_engines": ("two_engines/test_two_captures",),
    # ranks are read as a whole: made-up recordings, and real jobs of torchrun
    "ranks": ("ranks/test_ranks", "ranks/test_jobs"),
    "recording/engines": ("test_cli",),
    # two captures are read as a whole: of real calls
    "two_engines": ("two_engines/test_two_captures",),
    "second_opinion": ("second_opinion/test_step_checker", "second_opinion/test_place_checks"),
    "session/dry_run": ("session/test_session",),
    "session/edited_function": ("session/test_session", "session/test_notebook_session"),
    "session/first_frame": ("session/test_session",),
    "session/prediction": ("session/test_predicted_resumes", "properties/test_predictions"),
    "session/verdicts": ("session/test_session",),
    "views/anatomy": ("views/test_real_recordings",),
    "views/capture_difference": ("session/test_session",),
    "views/groups": ("views/test_dot", "views/test_explorer_data"),
    # what a watch sees is seen through programs
    # logs are read as a whole; each file has its docstring's example besides
    "traces": ("traces/test_folder", "traces/test_older_logs"),
    "traces/recompile_reasons": ("watching/test_watch", "traces/test_folder"),
    "watching": ("watching/test_watch", "watching/test_explaining"),
    "watching/rank_job": ("ranks/test_jobs",),
    "widgets/document": ("widgets/test_exports",),
    "widgets/pictures": (
        "views/test_bars_picture",
        "views/test_calls_picture",
        "views/test_capture_picture",
        "views/test_clock_picture",
        "views/test_joint_picture",
        "views/test_layers_picture",
        "views/test_split_picture",
        "views/test_stack_picture",
        "views/test_traffic_picture",
        "views/test_way_picture",
    ),
    "widgets/engines_page": ("browser/test_engines_page",),
    "widgets/ranks_page": ("browser/test_ranks_page",),
    "widgets/source": ("widgets/test_display",),
}

NOTHING_TO_TEST = {
    "engine/recorder": "a Protocol: what implements it is tested in recording/",
    "engine/translate/contract/interpreter": "a Protocol: what trackers and handlers may ask of the translator",
    "engine/translate/contract/request": "records that the translator takes, without behaviour",
    "engine/translate/handlers/not_traced": "a table of reasons, which opcodes/test_completeness.py reads",
}

# Tests in a mirrored folder that are about a room's C files, or about several files of the room.
OF_A_ROOM = {
    "engine/native": "the C extension: its tests bear the names of C files and of what they make",
    "engine/bytecode/test_versions": "the folder versions/, one file for each Python",
    "engine/variables/scalars/test_identity_of_numbers": "`is` between numbers of several trackers",
    "engine/runtime/test_compile_caches": "real compilers: what they keep on disk, and what they ask of sizes",
    "engine/test_graph_break_examples": "the examples in graph_breaks.py, each run as a program",
    "second_opinion/test_new_tracker": "a tracker that the room has never met",
    "views/test_real_recordings": "all views of recordings of real programs",
    "widgets/test_cells_that_can_be_asked": "live.py and magic.py together",
    "widgets/test_kernel": "widgets in a kernel of Jupyter",
    "widgets/test_vendored": "files of others in static/vendor",
}

FILES = sorted(
    str(file.path.relative_to(ROOT / "dynexplore").with_suffix("")) for file in modules().values() if not file.is_package
)


def mirrored(file: str) -> str:
    """Where the test of a source file would stand."""
    path = PurePosixPath(file)
    return str(path.with_name(f"test_{path.name}"))


def exists(test: str) -> bool:
    """Whether there is such a test file."""
    return (TESTS / f"{test}.py").is_file()


def is_tested(file: str) -> bool:
    """Whether anything above, or a mirrored test, speaks of a source file."""
    return exists(mirrored(file)) or bool(entries_for(file, THEMES)) or file in NOTHING_TO_TEST


def entries_for(file: str, table: object) -> list[str]:
    """The names of a table that say something about a file, the longest last."""
    return sorted((name for name in table if file == name or file.startswith(f"{name}/")), key=len)  # type: ignore[attr-defined]


def test_each_source_file_has_its_test() -> None:
    """Its mirrored test, or a theme, or a reason why there is nothing to test."""
    without = [f"dynexplore/{file}.py has no tests/{mirrored(file)}.py" for file in FILES if not is_tested(file)]
    assert not without, "write these tests, or name a theme in this file:\n" + "\n".join(without)


def test_the_tables_are_true() -> None:
    """Each theme is there; no entry speaks of files that are gone, or of a file that has a test of its own."""
    assert [test for tests in THEMES.values() for test in tests if not exists(test)] == []
    assert [name for name in THEMES if not any(entries_for(file, [name]) for file in FILES)] == []
    assert [name for name in (*THEMES, *NOTHING_TO_TEST) if name in FILES and exists(mirrored(name))] == []
    assert [name for name in NOTHING_TO_TEST if name not in FILES] == []
    assert [name for name in OF_A_ROOM if not exists(name) and not (TESTS / name).is_dir()] == []


def test_a_test_has_its_source_file() -> None:
    """In a folder that mirrors a room, each test file bears the name of a source file, unless it is about the room."""
    rooms = ("engine", "recording", "second_opinion", "session", "tools", "views", "lenses", "widgets")
    tests = sorted(path.relative_to(TESTS).with_suffix("") for room in rooms for path in (TESTS / room).rglob("test_*.py"))
    sources = {mirrored(file) for file in FILES}
    lost = [str(test) for test in tests if str(test) not in sources and not entries_for(str(test), OF_A_ROOM)]
    assert not lost, f"these mirror no source file: {lost}"
