#!/bin/sh
# One card.
cd "$(dirname "$0")" && exec "${PYTHON:-python3}" example.py
