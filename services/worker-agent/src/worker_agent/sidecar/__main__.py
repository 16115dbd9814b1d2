"""`python -I -S -m worker_agent.sidecar`: the entry of the sidecar's container."""

import sys

from worker_agent.sidecar.boot import main

if __name__ == "__main__":
    sys.exit(main())
