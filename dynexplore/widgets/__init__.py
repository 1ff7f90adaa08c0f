"""The notebook interface: the magics, and recordings as displayable objects.

The idea: a thin layer over the public API and the views. The magics run code under the engine as `dynexplore.explain` does, and
display its recording; nothing here depends on how the engine works.

In: cells and lines of a notebook, recordings.
Out: magic.py (`%load_ext dynexplore`, `%%dynamo`, `%dynamo`), source.py (a cell as a function), explorer.py (the widget), html.py
     (a recording as one HTML file), assets.py (the script and the style sheet of both, from static/).

PyTorch's counterpart: none.
"""
