"""Horovod beside HPU: what loads the device when a program imports it, and the calls of it that are helped."""
