"""A session on a volume loses its pod in mid-write, again and again: when another pod goes on, and with which files."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from harness.running import CannotMeasure, say
from harness.site import Site

from agent_sandbox import Client, RunningTask, Session
from agent_sandbox.events import Output
from agent_sandbox.places import TENANT
from kubernetes_parts.trees import differences, make_tree
from kubernetes_parts.word import Word
from shared import subjects
from shared.bus import Message
from shared.errors import ServiceError
from shared.kubectl import wait_ready
from shared.messages import decode
from shared.record import Record
from shared.testing.look import Look
from shared.testing.node_faults import NodeFaults

How = Literal["delete", "now", "kill", "poweroff", "cut"]
HOWS: tuple[How, ...] = get_args(How)
BY_HAND: Mapping[str, tuple[str, ...]] = {
    "delete": ("--wait=false",),
    "now": ("--now", "--wait=false"),
    "kill": ("--grace-period=0", "--force"),
}
"""Words of `kubectl delete pod`: its worker is asked to leave, and gives the task in hand the pod's time to end; it is killed a
second later; or nobody is asked, and its object is gone at once."""
AT_ONCE = ("now", "kill")
"""Nothing is waited for there."""
LINE_BYTES = 8
LINES_FIRST = 20
"""Written before the fault."""
WRITES = """
import os, time
log, number = open("{name}.held", "a"), 0
while True:
    number += 1
    line = f"{{number:07d}}\\n"
    log.write(line)
    log.flush()
    os.fsync(log.fileno())
    with open("{name}.opened", "a") as again:
        again.write(line)
    print(number, flush=True)
    time.sleep(0.02)
"""
"""Writes for ever into a file that it holds open and into one that it opens each time, and says which line the volume has."""
SIZES = """
import os
print(*(os.stat("{name}." + end).st_size for end in ("held", "opened")), flush=True)
"""
GOES_ON_S = 120.0
"""Longest wait for another pod, and for the former one's end."""
MOVES_S = 240.0
"""Beyond that, for a disk that goes from node to node."""
AFTER_S: Mapping[How, float] = {
    "delete": 5.0,
    "now": 5.0,
    "kill": 5.0,
    "poweroff": 5.0,
    "cut": 20.0,
}
"""Once the former pod is gone by the API server's books, which is no proof, and its node is back: so long its writes could
still come."""
NODE_BACK_S = 30.0
"""Once a node is back: its servers and services start before Kubernetes has noticed that they were gone."""
MENDED_S = 240.0


@dataclass
class Remount:
    """One loss of a pod."""

    how: How
    took_s: float
    """From the call that took the pod to the first instruction in the next one, as the client hears it."""
    revoked_s: float | None
    """Until the record had a new epoch; None: that was not heard."""
    lost_lines: int
    """Which the volume had by the program's word, and the next pod has not."""
    zombie_writes: int
    """Lines that came into either file after the next pod's first instruction."""
    differences: list[str] = field(default_factory=list)
    """Of the tree of files, before and after, byte by byte."""
    status: str = "interrupted"
    """What became of the task that was hit."""
    freed_s: float | None = None
    """Of `took_s`, what came after the word that the node is off."""


class Remounts:
    """Takes pods away from one session, and remembers."""

    def __init__(
        self,
        site: Site,
        pool: str,
        stock: int,
        faults: NodeFaults | None,
        word: Word | None = None,
    ) -> None:
        """Use a pool of a site.

        Args:
            site: the system.
            pool: on a volume.
            stock: its warm workers.
            faults: of nodes; None: there are none.
            word: given of nodes that are powered off; None: the volume is there without.
        """
        self.done: list[Remount] = []
        self._word = word
        self._goes_on_s = GOES_ON_S + (word.without_s + MOVES_S if word is not None else 0.0)
        self._site = site
        self._pool = pool
        self._stock = stock
        self._faults = faults
        self._epochs: dict[str, list[tuple[float, int]]] = {}

    async def run(self, client: Client, kinds: list[How]) -> None:
        """Do all rounds, one after another, with one session.

        Raises:
            CannotMeasure: another pod does not go on.
            FaultFailed: the program that does faults to nodes failed.
        """
        await self._site.admin.subscribe(subjects.record_live(self._pool), self._heard)
        with tempfile.TemporaryDirectory(prefix="agent-sandbox-tree-") as folder:
            tree = Path(folder) / "tree"
            make_tree(tree)
            session = await client.create_session(pool=self._pool)
            await session.upload_tree(tree, "tree")
            for number, how in enumerate(kinds):
                await self._until_warm()
                one = await self._strike(session, how, f"round-{number}")
                back = Path(folder) / f"back-{number}"
                await session.download_tree("tree", back)
                one.differences = differences(tree, back)
                self.done.append(one)
                if how not in BY_HAND and number + 1 < len(kinds):
                    await asyncio.sleep(NODE_BACK_S)
                say(
                    f"{number + 1} of {len(kinds)}: {how}: on after {one.took_s:.2f} s, "
                    f"{one.zombie_writes} writes of the former pod after that, {len(one.differences)} files differ"
                )
            await session.close()

    def _heard(self, message: Message) -> None:
        record = decode(message.data, Record)
        seen = self._epochs.setdefault(record.session, [])
        if not seen or record.epoch > seen[-1][1]:
            seen.append((time.monotonic(), record.epoch))

    async def _strike(self, session: Session, how: How, name: str) -> Remount:
        hit = await session.start_python(WRITES.format(name=name), timeout_s=900)
        written = Written(hit)
        await written.wait_for(LINES_FIRST)
        record = await Look(self._site.admin, TENANT).in_state(session.id, "running")
        assert record.owner is not None
        node = (await asyncio.to_thread(self._site.worker_nodes)).get(record.owner, "")
        # In the inbox behind the first: it begins in the next pod, as soon as that may.
        behind = await session.start_python(SIZES.format(name=name), timeout_s=900)

        began = time.monotonic()
        taking = asyncio.create_task(self._take(how, record.owner, node))
        try:
            first = await self._first_word(behind)
            took_s = time.monotonic() - began
            await taking
            status = (await hit.result(wait_s=GOES_ON_S)).status
        finally:
            await asyncio.wait({taking})
            if self._faults is not None:
                await asyncio.to_thread(self._faults.mend_all)
        await self._until_gone(record.owner)
        await asyncio.sleep(AFTER_S[how])
        then = await session.python(SIZES.format(name=name))
        sizes, later = (list(map(int, said.split())) for said in (first, then.stdout))
        revoked = [at for at, epoch in self._epochs.get(session.id, ()) if epoch > record.epoch]
        return Remount(
            how,
            took_s,
            revoked[0] - began if revoked else None,
            lost_lines=max(await written.end() - sizes[0] // LINE_BYTES, 0),
            zombie_writes=sum(now - was for was, now in zip(sizes, later, strict=True))
            // LINE_BYTES,
            status=status,
            freed_s=self._since_word(began + took_s),
        )

    def _since_word(self, at: float) -> float | None:
        given_at = None if self._word is None else self._word.given_at
        return None if given_at is None else at - given_at

    async def _take(self, how: How, pod: str, node: str) -> None:
        began = time.monotonic()
        if how in BY_HAND:
            words = ("delete", "pod", pod, "-n", self._site.spaces.pods, *BY_HAND[how])
            await asyncio.to_thread(self._site.kubectl.run, *words, timeout_s=60)
            return
        assert self._faults is not None
        assert how in ("poweroff", "cut")
        await asyncio.to_thread(self._faults.do, how, node)
        if self._word is not None:
            await self._word.give(self._site, self._pool, node, began)

    async def _first_word(self, task: RunningTask) -> str:
        said = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._goes_on_s):
                async for event in task.events():
                    if isinstance(event, Output):
                        said += event.data
                    if said.endswith(b"\n"):
                        return said.decode()
        view = await self._site.view(self._pool)
        raise CannotMeasure(f"no other pod goes on within {self._goes_on_s:g} s: {view.reason}")

    async def _until_gone(self, pod: str) -> None:
        """Wait until the API server has forgotten the former pod: one whose node is back ends itself first."""
        until = time.monotonic() + GOES_ON_S
        while pod in await asyncio.to_thread(self._site.worker_nodes):
            if time.monotonic() > until:
                raise CannotMeasure(f"pod {pod} is still there after {GOES_ON_S:g} s")
            await asyncio.sleep(0.5)

    async def _until_warm(self) -> None:
        services = (self._site.spaces.system, self._site.spaces.nodes)
        wait = (self._site.kubectl, services)
        await asyncio.to_thread(wait_ready, *wait, within_s=MENDED_S, say=say)
        until, said = time.monotonic() + MENDED_S, ""
        while time.monotonic() < until:
            with contextlib.suppress(ServiceError, CannotMeasure):
                view = await self._site.view(self._pool)
                said = f"{view.warm} of {self._stock} workers warm, {view.reason}"
                if view.warm >= self._stock:
                    return
            await asyncio.sleep(0.5)
        raise CannotMeasure(f"not as before after {MENDED_S:g} s: {said}")


class Written:
    """Follows what a program says that it has written."""

    def __init__(self, task: RunningTask) -> None:
        """Read the output of `task`."""
        self._lines = 0
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read(task))

    async def wait_for(self, lines: int) -> None:
        """Wait until so many are written.

        Raises:
            CannotMeasure: they are not, in time.
        """
        try:
            async with asyncio.timeout(GOES_ON_S):
                while self._lines < lines:
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError as exc:
            raise CannotMeasure(f"only {self._lines} lines within {GOES_ON_S:g} s") from exc

    async def end(self) -> int:
        """Return how many lines there were, once the task has ended."""
        async with asyncio.timeout(GOES_ON_S):
            await self._reading
        return self._lines

    async def _read(self, task: RunningTask) -> None:
        rest = b""
        async for event in task.events():
            if isinstance(event, Output):
                *lines, rest = (rest + event.data).split(b"\n")
                self._lines = max([self._lines, *(int(line) for line in lines if line)])
                self._more.set()
