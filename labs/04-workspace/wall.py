"""The wall: a pod with a folder of its own. It dies in the middle of the second step, and a new one takes its place."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import analysis

from labs.cluster import fresh_folder
from labs.frame import CannotRun, Figures, Say, side

STEP_S = 60.0


class Pod:
    """A folder that lives as long as the pod (`emptyDir`), and the process in it."""

    def __init__(self, folder: Path) -> None:
        """Start a pod: its folder holds what its image brought."""
        self.folder = folder
        folder.mkdir()
        for path, source in analysis.FILES.items():
            shutil.copyfile(source, folder / path)

    def start(self, step: analysis.Step) -> subprocess.Popen[str]:
        """Start a step."""
        words = [sys.executable if word == "python3" else word for word in step.argv]
        return subprocess.Popen(
            words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, step: analysis.Step) -> int:
        """Run a step; return its exit code."""
        process = self.start(step)
        process.communicate(timeout=STEP_S)
        return process.returncode

    def delete(self) -> None:
        """Take the pod away, as `kubectl delete pod` does: the folder is part of it."""
        shutil.rmtree(self.folder)


async def measure(say: Say) -> Figures:
    """Let the pod die, and see what is left for the next one."""
    with fresh_folder() as parent:
        pod = Pod(parent / "pod-1")
        began = time.monotonic()
        pod.run(analysis.CLEAN)
        worked = pod.start(analysis.SUM)
        lines = 0
        assert worked.stdout is not None
        for _ in worked.stdout:
            lines += 1
            if lines == analysis.DIE_AFTER_LINES:
                worked.send_signal(signal.SIGKILL)
        worked.wait(STEP_S)
        if lines > 2 * analysis.DIE_AFTER_LINES:
            raise CannotRun("the second step was over before its pod could die")
        pod.delete()
        died_s = time.monotonic() - began
        say(f"the pod is gone after {died_s:.1f} s, {lines} lines into the second step")
        new = Pod(parent / "pod-2")
        codes = {step.name: new.run(step) for step in (analysis.SUM, analysis.REPORT)}
        say(f"a new pod goes on with the second step: exit codes {codes}")
        left = {path: new.folder / path for path in analysis.MADE}
        found = {path: file.read_bytes() for path, file in left.items() if file.exists()}
        wrong = analysis.unequal(analysis.hashes(found))
        say(f"{wrong} of {len(analysis.MADE)} files are missing, or are not what they should be")
        return {
            "files_missing_or_wrong": wrong,
            "steps_that_failed": sum(code != 0 for code in codes.values()),
            "steps_to_do_again": 2,
            "work_lost_s": died_s,
        }


if __name__ == "__main__":
    side(measure)
