"""`python -m habana_tf.cli`, where the script `habana-tf` is not on the path."""

from __future__ import annotations

import sys

from habana_tf.cli.main import main

sys.exit(main())
