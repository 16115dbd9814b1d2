"""The wall: untrusted code in a plain process, beside its neighbour and its sidecar, on a kernel that they share."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import costs
from attack_set import SECRET, Target, attack_set

from labs.cluster import fresh_folder
from labs.frame import CannotRun, Figures, Say, side
from shared.testing.ordinary import as_ordinary_user
from shared.testing.secret_servers import secret_servers

RUN_S = 60.0
SETTLE_S = 0.3
"""Until the processes beside it have become what they are."""
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or "python3"
SLEEP = "import time; time.sleep(600)"


class Plain:
    """A folder, and processes of one ordinary user: never root, for some attacks would work."""

    def __init__(self, folder: Path) -> None:
        """Work in a new folder."""
        self.folder = folder
        folder.mkdir()
        self._user = as_ordinary_user()
        if self._user:
            shutil.chown(folder, self._user["user"], self._user["group"])

    def run(self, code: str) -> str:
        """Run code; return what it printed."""
        done = subprocess.run(
            [PYTHON, "-c", code],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
            **self._user,
        )
        return done.stdout

    @contextmanager
    def neighbour(self, name: str) -> Iterator[int]:
        """Keep another process running while inside; yield its number."""
        process = subprocess.Popen(
            [PYTHON, "-c", SLEEP], cwd=self.folder, env={"SECRET_OF": name}, **self._user
        )
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait(10)


async def measure(say: Say) -> Figures:
    """Try every attack on the neighbour of a plain process."""
    with ExitStack() as stack:
        parent = stack.enter_context(fresh_folder())
        plain = Plain(parent / "attacker")
        neighbours = Plain(parent / "neighbour").folder / "secret"
        neighbours.write_text("secret")
        servers = stack.enter_context(secret_servers(parent, SECRET))
        target = Target(
            stack.enter_context(plain.neighbour("neighbour")),
            stack.enter_context(plain.neighbour("sidecar")),
            str(neighbours),
            *servers,
        )
        await asyncio.sleep(SETTLE_S)
        told = {}
        verdicts = {}
        for attack in attack_set(target):
            if attack.program not in told:
                told[attack.program] = plain.run(attack.program)
            verdicts[attack.name] = attack.judged(told[attack.program])
        got = sum(word.startswith("NOT") for word in verdicts.values())
        say(f"a plain process: {got} of {len(verdicts)} attacks got through")
        cost = _costs(plain, target.neighbour_pid)
    return {
        "not_contained": got,
        "attacks": sum(word != "no word" for word in verdicts.values()),
        "kind": "plain process",
        "verdicts": verdicts,
        "costs": cost._asdict(),
    }


def _costs(plain: Plain, idle_pid: int) -> costs.Costs:
    memory = costs.pss_mib(idle_pid)
    starts = []
    for _ in range(5):
        began = time.monotonic()
        if not plain.run("print(1)"):
            raise CannotRun(f"{PYTHON} can't be run by an ordinary user")
        starts.append((time.monotonic() - began) * 1000)
    return costs.Costs(sorted(starts)[2], memory, *costs.read_work(plain.run(costs.PROGRAM)))


if __name__ == "__main__":
    side(measure)
