"""An attacker and its neighbour."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from drill import Drill, DrillPod

CONFINED = ("landlock", "namespace")
SECRET = "top secret of the host"


class Scene(NamedTuple):
    """An attacker, its neighbour, and what there is to get."""

    isolation: str
    drill: Drill
    attacker: DrillPod
    neighbour: DrillPod
    secret: Path

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes that are none of the attacker's business."""
        node = os.getpid()
        own_sidecar = self.attacker.sidecar_pid
        return (node, own_sidecar, self.neighbour.sandbox_pid, self.neighbour.sidecar_pid, 1)

    async def run(self, code: str) -> dict[str, Any]:
        """Run an attack that tells what it got."""
        said = await self.attacker.python(code, timeout_s=30)
        assert said["stdout"], said
        answer: dict[str, Any] = json.loads(said["stdout"].splitlines()[-1])
        return answer
