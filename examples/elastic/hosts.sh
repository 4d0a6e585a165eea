#!/bin/sh
# The hosts of the job and how many ranks each may have; asked every second.
echo localhost:1
echo 127.0.0.1:1
