"""`python -m paimon_maintenance.cli`."""

import sys

from paimon_maintenance.cli.main import main

sys.exit(main())
