"""Pages that load nothing: markup, their style, and spans of time on a clock that can be moved and zoomed."""
