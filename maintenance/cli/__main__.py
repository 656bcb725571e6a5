"""`python -m maintenance.cli`."""

import sys

from maintenance.cli.main import main

sys.exit(main())
