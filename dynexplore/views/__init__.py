"""Views of a recording: pure functions from recorded data to states, text, DOT, links and HTML.

The idea: the engine does not know that it is being observed, and a view does not know how the engine works. Within dynexplore,
the files here import only events.py and recording.py (and the table of canonical opcodes, for descriptions), and they need only
the standard library, so that a recording can be viewed in a process without torch.

In: a Recording. Out: timeline.py (states to step through), text.py (every view as plain text), dot.py (graphs for graphviz),
links.py (cross-references between panes), headline.py (summary, location, advice), annotated.py (annotated source),
html_text.py (a static page), explorer_data.py (the data of the explorer in the browser). PyTorch's counterpart: the tlparse
tool, which converts logs to report directories.
"""
