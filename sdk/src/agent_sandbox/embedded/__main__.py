"""The supervisor's process: `python -m agent_sandbox.embedded STATE`. `agent-sandbox up` starts it."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.supervisor import Supervisor
from shared import logs, service
from shared.errors import Rejected, Unavailable

EXIT_IN_USE = 17
"""Another supervisor holds the folder."""
DRAIN_S = 45.0
"""More than the graces of nodes, managers and servers, one after another."""


FILES_MAX = 65_536
"""Open files that a service may need: an edge has two for each of its clients."""


def raise_open_files() -> None:
    """Use the whole hard limit of open files: shells mostly give 1,024 to programs that do not ask."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> int:
    """Run the supervisor of the state folder that is named; return the exit code."""
    raise_open_files()
    folder = Folder(Path(sys.argv[1]))
    logs.configure(service="supervisor")
    log = logs.get(__name__)
    try:
        with folder.lock():
            return asyncio.run(service.run(Supervisor(folder).run, drain_s=DRAIN_S))
    except Unavailable as exc:
        log.warning("supervisor.not_needed", error=str(exc))
        return EXIT_IN_USE
    except Rejected:
        log.exception("supervisor.failed")
        return service.EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
