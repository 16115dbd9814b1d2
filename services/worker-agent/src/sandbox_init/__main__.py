"""`python -I -S -m sandbox_init --connect PATH --workspace DIR --pids N --disk-mib N`; see `start`."""

import sys

from sandbox_init.start import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
