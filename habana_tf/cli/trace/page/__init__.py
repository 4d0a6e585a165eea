"""A timeline as one HTML page: a clock that can be zoomed, a roofline, memory over a launch, layers as flames."""
