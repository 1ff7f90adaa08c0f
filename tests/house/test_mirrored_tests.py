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
    "__main__": ("cli/test_commands",),
    "early_signals": ("cli/test_programs",),
    "cli/captures": ("cli/test_commands", "watching/test_explaining"),
    "cli/files": ("cli/test_commands",),
    "cli/output_files": ("cli/test_commands", "cli/test_summary_json"),
    "cli/hunt": ("tools/test_break_hunt",),
    "session/call_facts": ("session/test_targets", "session/test_cell_capture"),
    "session/code_facts": ("session/test_targets", "session/test_cell_capture"),
    "session/plain_capture": ("benchmarks/test_scripts",),
    "cli/program": ("cli/test_commands",),
    "cli/remedies": ("tools/test_tried_remedies",),
    "engine/aliasing/metadata": ("engine/aliasing/test_collect",),
    "engine/aliasing/passes": ("engine/aliasing/test_lower",),
    "engine/aliasing/wrappers": ("engine/aliasing/test_lower",),
    "engine/translate/call_wrappers": ("engine/aliasing/test_lower", "engine/translate/test_graph_call"),
    **dict.fromkeys(
        ("engine/bytecode/code_tables", "engine/bytecode/code_units", "engine/bytecode/stack_depths"),
        ("engine/bytecode/test_assembler",),
    ),
    "engine/bytecode/versions": ("engine/bytecode/test_versions", "engine/bytecode/test_reader"),
    "engine/graph/subgraphs": (
        "engine/variables/torch_/higher_order/test_checkpoint",
        "engine/variables/torch_/higher_order/test_cond",
    ),
    "engine/graph/finished_graph": ("engine/aliasing/test_lower", "engine/translate/test_graph_call"),
    "engine/graph/builder": ("engine/translate/test_translator", "engine/graph/test_fake_mode"),
    "engine/specialization/profile": ("engine/translate/test_break_code", "engine/runtime/test_convert"),
    "engine/specialization/shape_env": ("engine/variables/scalars/test_symint",),
    "engine/graph/concrete_value": ("engine/variables/scalars/test_unbacked", "engine/variables/numpy_/test_array"),
    "engine/aliasing/mutation": ("engine/aliasing/test_clone_inputs", "engine/aliasing/test_overlap_guard"),
    "engine/provenance/attribute_dicts": ("engine/translate/test_dict_aliasing",),
    "engine/provenance/guard_codegen": ("engine/provenance/test_guard_check", "engine/provenance/test_guards_observe_nothing"),
    "engine/provenance/guard_emitter": ("engine/provenance/test_guard_check",),
    "engine/provenance/torch_guards": ("engine/provenance/test_guard_check",),
    "engine/provenance/guards": ("engine/provenance/test_guard_check", "engine/variables/torch_/nn/test_nn_module"),
    "engine/provenance/identity_facts": ("engine/native/test_guard_walk", "engine/variables/torch_/nn/test_nn_module"),
    "engine/provenance/module_guards": ("engine/native/test_guard_walk", "engine/variables/torch_/nn/test_nn_module"),
    "recording/upgrades": ("recording/test_recording",),
    "engine/runtime/frame_facts": ("engine/runtime/test_decision",),
    "engine/runtime/numpy_state": ("engine/runtime/test_state_restores",),
    "engine/runtime/object_attributes": ("engine/runtime/test_reachable_state", "engine/runtime/test_state_restores"),
    "engine/runtime/missing_compiler": ("engine/runtime/test_backends",),
    "engine/runtime/decorators": ("engine/runtime/test_api",),
    "engine/runtime/run_only": ("engine/runtime/test_api",),
    "engine/runtime/observed_backend": ("engine/aliasing/test_lower", "session/test_explain", "session/test_session"),
    "engine/runtime/observers": ("session/test_explain", "second_opinion/test_step_checker"),
    "session/torch_compiled": ("watching/test_recognized",),
    "tools/wrong_operator": ("tools/test_checked_calls",),
    "tools/hunt_programs": ("tools/test_break_hunt",),
    "tools/torch_runs": ("watching/test_recognized",),
    "watching/compiled_anew": ("watching/test_recognized",),
    "engine/tool_hooks": ("tools/test_printout", "tools/test_frame_record", "tools/test_repro_on_failure"),
    # the translator is seen through programs: each instruction has its own, each theme its file
    "engine/translate": ("engine/translate/test_translator", "engine/translate/test_break_code", "engine/translate/test_resume"),
    "engine/translate/replay": ("engine/translate/test_graph_failure",),
    "engine/translate/handlers": (
        "opcodes/test_calls",
        "opcodes/test_containers",
        "opcodes/test_control",
        "opcodes/test_names_and_operators",
    ),
    "engine/translate/event_emitter": ("recording/test_recording", "session/test_explain", "properties/test_watched_programs"),
    "engine/variables/callables": ("engine/variables/objects/test_user_object", "engine/variables/test_model_code"),
    "engine/variables/callables/cached_call": ("engine/variables/callables/test_cached_function",),
    "engine/variables/containers": (
        "engine/variables/containers/test_containers",
        "engine/variables/containers/test_container_styles",
        "engine/variables/containers/test_builtin_iterators",
        "properties/test_container_programs",
    ),
    "engine/variables/contract": (
        "engine/translate/test_translator",
        "engine/variables/contract/test_reconstruction",
        "engine/translate/test_unreconstructible",
    ),
    "engine/variables/modes": ("engine/variables/modes/test_protocol",),
    "engine/variables/numpy_": ("engine/variables/numpy_/test_array", "properties/test_array_programs"),
    "engine/variables/objects": ("engine/variables/objects/test_user_object", "engine/variables/test_model_code"),
    "engine/variables/all_rows": ("engine/translate/test_translator",),
    "engine/variables/scalars": ("engine/variables/test_rules", "engine/translate/test_translator"),
    "engine/variables/scalars/minmax": ("engine/translate/test_unreconstructible",),
    "engine/variables/signatures": ("engine/variables/test_rules",),
    "engine/variables/torch_": ("engine/variables/torch_/nn/test_nn_module", "engine/variables/torch_/test_torch_rules"),
    "engine/variables/torch_/autograd": ("engine/variables/torch_/autograd/test_autograd_function",),
    "engine/variables/torch_/higher_order/functorch_level": (
        "engine/variables/torch_/higher_order/test_vmap",
        "engine/variables/torch_/higher_order/test_func_grad",
    ),
    "engine/variables/torch_/higher_order/hop_subgraph": (
        "engine/variables/torch_/higher_order/test_cond",
        "engine/variables/torch_/higher_order/test_loops",
    ),
    "engine/variables/torch_/higher_order/speculate_subgraph": (
        "engine/variables/torch_/higher_order/test_checkpoint",
        "engine/variables/torch_/higher_order/test_cond",
    ),
    "engine/variables/torch_/nn/module_copy": ("engine/variables/torch_/nn/test_new_parameter",),
    "engine/variables/torch_/nn/parameter_instancecheck": ("engine/variables/torch_/tensor/test_tensor_metadata_guards",),
    # files of the engine that are seen through programs: each of these tests runs functions of the file
    "engine/translate/broken_unit": ("engine/translate/test_break_code",),
    "engine/translate/budget": ("engine/runtime/test_convert",),
    "engine/translate/calls": ("opcodes/test_calls",),
    "engine/translate/carriers": ("engine/translate/test_nested_break",),
    "engine/translate/enum_statement": ("engine/translate/test_class_statement",),
    "engine/translate/function_reconstruction": ("engine/variables/callables/test_function",),
    "engine/translate/guard_compilation": ("engine/provenance/test_guard_filter", "engine/provenance/test_guard_check"),
    "engine/translate/handlers/attributes": ("opcodes/test_names_and_operators",),
    "engine/translate/handlers/calls": ("opcodes/test_calls",),
    "engine/translate/handlers/containers": ("opcodes/test_containers",),
    "engine/translate/handlers/control": ("opcodes/test_control",),
    "engine/translate/handlers/exceptions": ("opcodes/test_control",),
    "engine/translate/handlers/functions": ("opcodes/test_calls",),
    "engine/translate/handlers/observed_end": ("engine/translate/test_live_stacks", "engine/translate/test_raised_exceptions"),
    "engine/translate/handlers/operators": ("opcodes/test_names_and_operators",),
    "engine/translate/handlers/stack": ("opcodes/test_names_and_operators",),
    "engine/translate/handlers/strings": ("opcodes/test_containers",),
    "engine/translate/handlers/with_blocks": ("opcodes/test_control",),
    "engine/translate/injected_locals": ("engine/translate/test_codegen",),
    "engine/translate/nested_resume": ("engine/translate/test_nested_break",),
    "engine/translate/operations": ("engine/translate/test_translator",),
    "engine/translate/stack_shape": ("engine/translate/test_break_code",),
    "engine/translate/symbolic_frame": ("engine/translate/test_frame_stack", "engine/translate/test_translator"),
    "engine/translate/value_builder": ("engine/translate/test_translator",),
    "engine/variables/containers/copy_rules": (
        "engine/variables/containers/test_builtin_subclass",
        "engine/variables/objects/test_object_copy",
    ),
    "engine/variables/containers/deque": ("engine/variables/containers/test_containers",),
    "engine/variables/containers/dict_views": (
        "engine/variables/containers/test_containers",
        "engine/variables/containers/test_mapping",
    ),
    "engine/variables/containers/itertools_rules": ("engine/variables/containers/test_itertools_iterators",),
    "engine/variables/containers/lazy": ("engine/variables/containers/test_containers",),
    "engine/variables/containers/named_tuple": ("engine/variables/containers/test_containers", "engine/translate/test_class_forms"),
    "engine/variables/containers/ranges": ("engine/variables/containers/test_containers",),
    "engine/variables/containers/regex_matches": ("engine/variables/containers/test_existing_iterator",),
    "engine/variables/containers/sorting": ("engine/variables/containers/test_containers",),
    "engine/variables/contract/active_mode": ("engine/variables/modes/test_active_modes",),
    "engine/variables/contract/build": ("engine/translate/test_translator",),
    "engine/variables/contract/context": ("engine/translate/test_translator",),
    "engine/variables/contract/function_modes": ("engine/variables/modes/test_torch_function_modes",),
    "engine/variables/contract/hash_keys": ("engine/variables/objects/test_user_hash_key",),
    "engine/variables/contract/inspection": ("second_opinion/test_new_tracker",),
    "engine/variables/contract/side_effects": ("engine/variables/contract/test_write_back", "engine/translate/test_translator"),
    "engine/variables/modes/error_on_graph_break": ("engine/policy/test_error_on_graph_break",),
    "engine/variables/modes/grad_mode": ("engine/variables/modes/test_protocol",),
    "engine/variables/modes/nested_breaks": ("engine/policy/test_nested_breaks",),
    "engine/variables/modes/null_context": ("engine/variables/modes/test_protocol",),
    "engine/variables/numpy_/array_memory": ("engine/variables/numpy_/test_array",),
    "engine/variables/numpy_/array_models": ("engine/variables/numpy_/test_array",),
    "engine/variables/numpy_/array_rules": ("engine/variables/numpy_/test_array",),
    "engine/variables/objects/builtin_value": ("engine/variables/test_model_code",),
    "engine/variables/objects/class_": ("engine/variables/objects/test_user_object", "engine/translate/test_class_statement"),
    "engine/variables/objects/descriptors": (
        "engine/variables/objects/test_user_object",
        "engine/variables/objects/test_unusual_classes",
    ),
    "engine/variables/objects/frame_class": ("engine/translate/test_class_statement", "engine/translate/test_class_forms"),
    "engine/variables/objects/instance_attribute_guards": (
        "engine/variables/objects/test_instance_dict",
        "engine/variables/objects/test_user_object",
    ),
    "engine/variables/objects/logger": ("engine/variables/test_model_code",),
    "engine/variables/objects/namespace": ("engine/translate/test_own_locals", "engine/translate/handlers/test_names"),
    "engine/variables/objects/object_rules": ("engine/variables/objects/test_user_object",),
    "engine/variables/objects/object_slots": ("engine/variables/objects/test_user_object",),
    "engine/variables/objects/opaque": ("engine/variables/test_model_code",),
    "engine/variables/objects/user_operators": ("engine/variables/objects/test_user_object",),
    "engine/variables/objects/weak_reference": ("engine/variables/objects/test_finalizers",),
    "engine/variables/scalars/enumeration": ("engine/variables/objects/test_user_object",),
    "engine/variables/scalars/number_rules": ("engine/variables/test_builtin_rules",),
    "engine/variables/scalars/specialize": ("engine/variables/scalars/test_symint",),
    "engine/variables/torch_/autograd/autograd_function_freevars": ("engine/variables/torch_/autograd/test_autograd_function",),
    "engine/variables/torch_/nested_optimize": ("engine/runtime/test_optimized",),
    "engine/variables/torch_/torchscript": ("engine/variables/torch_/test_torch_rules",),
    # a lens is one method of capture: they are compared with each other
    "lenses": ("lenses/test_compare", "lenses/test_comparison"),
    "lenses/compare_engines": ("two_engines/test_two_captures",),
    # ranks are read as a whole: made-up recordings, and real jobs of torchrun
    "ranks": ("ranks/test_ranks", "ranks/test_jobs"),
    "recording/engines": ("cli/test_commands",),
    # two captures are read as a whole: of real calls
    "two_engines": ("two_engines/test_two_captures",),
    "second_opinion": ("second_opinion/test_step_checker", "second_opinion/test_place_checks"),
    "session/dry_run": ("session/test_session",),
    "session/edited_function": ("session/test_session", "session/test_notebook_session"),
    "session/first_frame": ("session/test_session",),
    "session/prediction": ("session/test_predicted_resumes", "properties/test_predictions"),
    "session/verdicts": ("session/test_session",),
    "views/anatomy": ("views/test_real_recordings",),
    "views/break_costs": ("views/test_program_report", "views/test_headline"),
    "views/capture_difference": ("session/test_session",),
    "views/groups": ("views/test_dot", "views/test_explorer_data"),
    # what a watch sees is seen through programs
    # logs are read as a whole; each file has its docstring's example besides
    "traces": ("traces/test_folder", "traces/test_older_logs"),
    "watching": ("watching/test_watch", "watching/test_explaining"),
    "watching/rank_job": ("ranks/test_jobs",),
    "pytest_plugin": ("watching/test_pytest_plugin",),
    "watching/counted_block": ("watching/test_pytest_plugin",),
    "watching/remedy_process": ("tools/test_tried_remedies",),
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
        "views/test_call_flow_diagram",
    ),
    "widgets/engines_page": ("browser/test_engines_page",),
    "widgets/ranks_page": ("browser/test_ranks_page",),
    "widgets/source": ("widgets/test_display",),
}

NOTHING_TO_TEST = {
    "engine/recorder": "a Protocol: what implements it is tested in recording/",
    "engine/translate/contract/interpreter": "a Protocol: what trackers and handlers may ask of the translator",
    "engine/translate/contract/request": "records that the translator takes, without behaviour",
    "engine/translate/handlers/unsupported_opcodes": "a table of reasons, which opcodes/test_completeness.py reads",
}

# Tests in a mirrored folder that are about a room's C files, or about several files of the room.
OF_A_ROOM = {
    "engine/variables/torch_/test_data_dependent_slices": "data_dependent_indexing.py: slices whose ends tensors hold",
    "engine/variables/torch_/test_varying_index": "indexing.py: subscripts with a number that varies, as programs have them",
    "engine/variables/torch_/tensor/test_unsupported_layouts": "tensor.py, translate/operations.py: sparse and nested tensors",
    "engine/variables/containers/test_mapping_proxies": "mapping.py, dict_views.py: MappingProxyType of every mapping",
    "tools/test_planted_faults": "each tool finds the fault that it is for, wherever it was put",
    "engine/aliasing/test_alias_matrix": "input kinds x mutations x views x modes x backends, beside eager",
    "engine/aliasing/test_inputs_resized_in_place": "inputs whose sizes or memory change in place",
    "engine/provenance/test_duplicate_inputs": "guards of all kinds: two arguments that are one object",
    "engine/provenance/test_function_guards": "guards on functions: their code, defaults and attributes",
    "engine/provenance/test_guards_never_raise": "guards of all kinds: one that raises is a miss",
    "engine/provenance/test_guards_observe_nothing": "guards of all kinds: none runs code of the program",
    "engine/runtime/test_swapped_tensors": "what entries of the cache hold weakly",
    "engine/specialization/test_unbacked_sizes": "sizes that only data tells, through the whole room",
    "engine/translate/test_rest_after_a_break": "what a resume function captures behind each kind of call",
    "engine/translate/test_python_3_14": "the whole room: managers, annotations and branch events of Python 3.14",
    "engine/translate/test_class_forms": "each way in which a frame makes a class",
    "engine/translate/test_raised_exceptions": "what an exception that leaves a frame keeps alive",
    "engine/translate/test_live_stacks": "the frames that a running program sees",
    "engine/translate/test_own_locals": "locals(), vars(), dir() in translated frames",
    "engine/translate/test_unbound_cells": "cell variables without a value, over a break",
    "engine/variables/test_model_code": "all rooms: what the code of models does around its layers",
    "engine/variables/containers/test_c_methods_of_subclasses": "what C code of a container asks of a subclass",
    "engine/variables/containers/test_changes_during_iteration": "containers that change while they are walked",
    "engine/variables/containers/test_set_order": "the order of members of sets that change, combine and leave the frame",
    "engine/variables/containers/test_container_styles": "containers as models use them",
    "engine/variables/containers/test_containers": "all containers: one table of programs",
    "engine/variables/containers/test_growing_dicts": "mapping.py: dicts that grow between calls",
    "engine/variables/containers/test_numbered_dict_changes": "numbered_dict.py: keys that change between calls",
    "engine/variables/containers/test_order_of_ordered_dict": "mapping.py, builtin_subclass.py: OrderedDicts that were reordered",
    "engine/variables/numpy_/test_numpy_scalars": "numpy's scalars beside tensors",
    "engine/variables/objects/test_class_names": "a class's name in what Python writes",
    "engine/variables/objects/test_class_keys": "keys of a class that are not text",
    "engine/variables/objects/test_exception_details": "exception.py: contexts, throw, groups, attributes of C types",
    "engine/variables/objects/test_descriptor_places": "descriptors and operators in unusual places",
    "engine/variables/objects/test_finalizers": "objects with a `__del__`",
    "engine/variables/objects/test_class_writes": "one tracker for a class, by whatever way it is reached",
    "engine/variables/objects/test_unusual_classes": "classes and numbers that models rarely have",
    "engine/aliasing/test_one_capture": "graphs, guards and breaks do not depend on the backend: about the whole room",
    "engine/native": "the C extension: its tests bear the names of C files and of what they make",
    "engine/bytecode/test_versions": "the folder versions/, one file for each Python",
    "engine/variables/torch_/autograd/test_saved_tensors_hooks": "hooks that the program sets around any graph",
    "engine/variables/torch_/higher_order/test_associative_scan": "loops.py, as it is called on a GPU",
    "engine/variables/torch_/nn/test_registrations": "nn_module.py: the registries and what fills them",
    "engine/variables/torch_/nn/test_replaced_registries": "nn_module.py: registries that the program replaces",
    "engine/variables/torch_/tensor/test_assigned_gradients": "tensor.py: what is assigned to `.grad`",
    "engine/variables/torch_/test_process_questions": "torch_rules.py: questions about the build, the machine and the processes",
    "engine/variables/scalars/test_identity_of_numbers": "`is` between numbers of several trackers",
    "engine/runtime/test_compile_caches": "real compilers: what they keep on disk, and what they ask of sizes",
    "engine/test_graph_break_examples": "the examples in graph_breaks.py, each run as a program",
    "second_opinion/test_kinds_of_values": "kinds of values in kinds of containers, through the whole room",
    "second_opinion/test_new_tracker": "a tracker that the room has never met",
    "views/test_nested_breaks": "all views of a break in a callee",
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
