"""``python -m jupyter_dtf``: the command line, as ``jupyter dtf``."""

import sys

from .cli import main

sys.exit(main())
