"""A timeline as one HTML page: a timeline that can be zoomed, a roofline, memory over a launch, layers as a flame."""
