"""What torch.compile leaves in text: logs of TORCH_TRACE as recordings, without torch and without the program. Layer 62.

torch_words and recompile_reasons read single messages of torch (a live watch uses them, too), graph_text and guard_text its
printed graphs and guard trees; trace_log reads a log as a stream, compiles puts its entries together, one by one compilation,
sources finds the program's lines, log_to_recording makes the recording, and folder is the way in.
"""
