"""What a person sees of a recording: pure functions from dead records to states, text, DOT, links and HTML.

Which idea lives here: the engine does not know that it is watched, and a view does not know how the engine works. Each
file here reads events.py and recording.py (and the table of canonical opcodes, for its sentences) and nothing else of
ours, and needs only the standard library, so that a recording can be looked at in a process without torch.

In:  a Recording.
Out: timeline.py (states to step through), text.py (every view as plain text), dot.py (graphs for graphviz), links.py
     (what belongs together), headline.py (what happened, where, what to do), annotated.py (the source with what became of
     it), html_text.py (a static page), explorer_data.py (what the explorer in the browser shows).

PyTorch's counterpart: the tlparse tool, which makes report folders from logs.
"""
