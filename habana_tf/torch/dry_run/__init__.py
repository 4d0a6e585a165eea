"""A step of a module that is recorded and never run."""
