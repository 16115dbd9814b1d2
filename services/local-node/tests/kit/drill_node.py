"""A node in a process of its own, to be killed: one pod of each class, each with processes that try to stay behind.

python drill_node.py FOLDER MARK SANDBOX_PYTHON: prints one JSON line when all is up, then waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from drill import open_drill, processes_with, until


async def main(folder: str, mark: str, python: str) -> None:
    """Start pods and wait to be killed."""
    async with open_drill(folder=folder, sandbox_python=python) as drill:
        offered = [
            name for name in ("process", "landlock", "namespace") if not drill.available[name]
        ]
        pods = [await drill.start(f"stays-{name}", name) for name in offered]
        for pod in pods:
            line = f"(setsid sh -c 'trap \"\" TERM HUP; sleep {mark}; sleep {mark}' >/dev/null 2>&1 &); exit 0"
            await pod.shell(line)
        assert await until(lambda: len(processes_with(mark)) >= 2 * len(pods))
        keepers, zygotes = drill.keepers_and_zygotes(pods)
        facts = json.dumps(
            {
                "classes": offered,
                "pids": [pid for pod in pods for pid in (pod.sandbox_pid, pod.sidecar_pid)],
                "cgroups": [pod.facts["cgroup"] for pod in pods if pod.facts["cgroup"]],
                "keepers": keepers,
                "zygotes": zygotes,
                "node": os.getpid(),
            }
        )
        sys.stdout.write(facts + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
