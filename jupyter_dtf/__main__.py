"""``python -m jupyter_dtf``: the same command line as ``jupyter dtf``."""

import sys

from .cli import main

sys.exit(main())
