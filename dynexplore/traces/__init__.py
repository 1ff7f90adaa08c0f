"""TORCH_TRACE logs as recordings: reads the text that torch.compile leaves behind, without torch or the program. Layer 62.

torch_words and recompile_reasons parse single messages of torch (a live watch uses them, too); graph_text and guard_text parse
printed graphs and guard trees. trace_log streams a log's entries, compiles groups them by compilation, sources finds the program's
source lines, log_to_recording builds the recording, and folder is the entry point.
"""
