"""What a person uses in a notebook: the magics, and the recording as something to look at.

Which idea lives here: a thin layer over the public API and the views. The magics run code under the engine as
`dynexplore.explain` does, and show its recording; nothing here knows how the engine works.

In:  cells and lines of a notebook, recordings.
Out: magic.py (`%load_ext dynexplore`, `%%dynamo`, `%dynamo`), source.py (a cell as a function), explorer.py (the widget),
     html.py (a recording as one HTML file), assets.py (static/: the script and the style that both of these show).

PyTorch has no counterpart.
"""
