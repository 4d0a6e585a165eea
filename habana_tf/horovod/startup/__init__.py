"""What runs at every start of Python: both files are installed beside the package, not in it."""
