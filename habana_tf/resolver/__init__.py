"""What native code asks for: a launch's shapes in, a program out. Keys, ranges, fallbacks, reports."""
