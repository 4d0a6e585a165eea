"""What runs at every start of Python. Both files are installed beside the package, not in it."""
