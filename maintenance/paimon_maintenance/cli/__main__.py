"""`python -m paimon_maintenance.cli`, and the installed command `caretaker`."""

import atexit
import gc
import sys

from paimon_maintenance.engines.process import prepare_process

# Python looks for garbage again when it ends, which takes as long as a fifth of the imports.
atexit.register(gc.freeze)
prepare_process()

from paimon_maintenance.cli.main import main  # noqa: E402 - see above

if __name__ == "__main__":
    sys.exit(main())
