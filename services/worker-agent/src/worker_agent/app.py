"""Composition of one worker: warm, then bound to one session, then gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from shared import logs, messages, subjects
from shared.bus import Bus, Handler, Message
from shared.bus.renewal import keep_renewed
from shared.errors import InvalidMessage, OutcomeUnknown, StaleEpoch, Unavailable
from shared.failpoints import Failpoints
from shared.messages import CancelAnswer, CancelOrder, Credential, WorkerBeat, WorkerState
from shared.quota import FullTenants
from shared.service import Stop
from worker_agent.adapters.contact import BusContact
from worker_agent.adapters.credential import Renewals
from worker_agent.adapters.objects import TenantObjects
from worker_agent.adapters.outside import connect, probed
from worker_agent.adapters.queue import PoolLanes
from worker_agent.adapters.spans import SpanVoice
from worker_agent.adapters.store import SessionStore
from worker_agent.adapters.terminals import BusTerminals
from worker_agent.adapters.voice import CoreVoice
from worker_agent.filing import make_files
from worker_agent.loops.beat import Beater, Fence
from worker_agent.loops.claim import Claimer
from worker_agent.loops.commit import Committer
from worker_agent.loops.finish import Ports
from worker_agent.loops.hold_session import SessionHolder
from worker_agent.loops.note import Notes
from worker_agent.loops.run_task import TaskRunner
from worker_agent.loops.wait_for_bell import BellWaiter
from worker_agent.pod import Pod
from worker_agent.ports import Delivery, Held, Sandbox
from worker_agent.settings import sampling_of

log = logs.get(__name__)

CANCEL_S = 10.0
"""Longest wait for the commit of a cancelled task before the asker is told to ask again."""
SUBSCRIBE_RETRY_S = 0.25
CONTROL_AFTER_S = 0.1
"""A bound worker takes orders (cancel) after so long."""
CONTACT_EVERY_S = 1.0
"""Bound, it asks for a sign of life so often."""


class Worker:
    """One worker of one pod."""

    def __init__(self, pod: Pod, bus: Bus, sandbox: Sandbox) -> None:
        """Join adapters and loops."""
        self._pod, self._bus, self._sandbox = pod, bus, sandbox
        settings = pod.settings
        truth, contact = SessionStore(bus), BusContact(bus)
        at = Failpoints(settings.failpoints, "worker", pod.spec.pool).at
        committer = Committer(at("commit", truth), give_up_s=settings.give_up_s)
        self._held: Held | None = None
        self._answering = asyncio.Lock()
        self._renewals = Renewals(bus, pod.spec)
        self._beater = Beater(at("beat", contact), settings, self._beat)
        self._fence = Fence(contact, truth, sandbox, settings)
        self._claimer = Claimer(at("claim", truth), pod.place, full=settings.full_tenants)
        self._waiter = BellWaiter(
            at("wait_for_bell", PoolLanes(bus, pod.spec.pool)),
            self._claimer,
            on_delivery=self._make_ready,
        )
        self._files, self._lease = make_files(
            (pod, bus, sandbox), committer, at, self._beater.changed
        )
        self._runner = TaskRunner(
            Ports(
                truth=at("run_task", truth),
                sandbox=at("run_task", sandbox),
                voice=at("run_task", CoreVoice(bus, pod.spec.pod)),
                committer=committer,
                files=self._files,
                terminals=BusTerminals(bus, pod.spec.pod),
                objects=lambda tenant: TenantObjects(bus, tenant, stall_s=settings.give_up_s),
                notes=Notes(SpanVoice(bus, pod.spec), pod.place, sampling_of(settings)),
            ),
            pod.place,
            on_interrupt=settings.on_interrupt,
            on_change=self._beater.changed,
        )
        self._holder = SessionHolder(
            at("hold_session", truth),
            self._runner,
            committer,
            self._files,
            on_kept=self._hear_wakes,
        )

    async def serve(self, stop: Stop) -> None:
        """Wait for one session, work it off, and return.

        Raises:
            StaleEpoch: the session was revoked; the pod must end with all its processes.
            OutcomeUnknown: a result could not be committed for too long.
        """
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(self._beater.run(self._check_fence))
            watching = group.create_task(self._leave_without_sandbox(stop))
            listening = group.create_task(self._hear_who_is_full())
            renewing = group.create_task(self._keep_renewed(stop))
            try:
                held = await self._waiter.wait(self._pod.spec.lanes, stop)
                if held is None:
                    await self._waiter.leave()
                    return
                listening.cancel()
                watching.cancel()  # from here on a lost sandbox is told in the session's results and record
                self._held = held
                self._beater.changed()  # a worker that lives and does not name its session is given up
                group.create_task(self._waiter.leave())
                obeying = group.create_task(self._take_orders())
                hurrying = group.create_task(self._save_when_leaving(stop))
                leasing = group.create_task(self._keep_lease(held))
                logs.bind(session_id=held.record.session, epoch=held.record.epoch)
                async with self._bus.watch_contact(CONTACT_EVERY_S):
                    await self._holder.hold(
                        held, stop, idle_release_s=self._pod.settings.idle_release_s
                    )
                obeying.cancel()
                hurrying.cancel()
                leasing.cancel()
            finally:
                for each in (beating, watching, listening, renewing):
                    each.cancel()

    async def _hear_who_is_full(self) -> None:
        """Hear which tenants get no new session. What was said before the pod was made is in its settings."""
        await asyncio.sleep(CONTROL_AFTER_S)  # a worker made for a task that waits is bound by then

        def heard(message: Message) -> None:
            self._claimer.full.heard(messages.decode(message.data, FullTenants), time.monotonic())

        await self._patiently_hear(subjects.FULL, heard)

    async def _keep_renewed(self, stop: Stop) -> None:
        """Renew the pod's credential; leave in time where that fails, unless a session would be lost by it."""

        def on_late() -> None:
            if self._held is None:
                stop.set("credential_ends")

        async def show(credential: Credential) -> None:
            async with self._answering:  # an answer that is not out yet would be refused afterwards
                await self._bus.use_credential(credential)

        first = self._pod.spec.credential
        await keep_renewed(first, self._renewals.fetch, show, on_late=on_late)

    async def _leave_without_sandbox(self, stop: Stop) -> None:
        """Claim nothing when there is nothing to run it: its first task would fail by no fault of its own."""
        await self._sandbox.wait_lost()
        stop.set("sandbox_lost")

    def _make_ready(self, delivery: Delivery) -> None:
        """While the claim is on its way, make ready for what it will bring.

        The body is not parsed before the record exists: this looks for a word in it and is wrong at no harm.
        """
        self._sandbox.prepare(python=b'"python"' in delivery.data or b'"open"' in delivery.data)

    async def _take_orders(self) -> None:
        """Hear orders, off the path to the first instruction of user code.

        Most one-shots are over before they could be cancelled: whoever asks sooner asks again by himself.
        """
        await asyncio.sleep(CONTROL_AFTER_S)
        await self._patiently_hear(subjects.control(self._pod.spec.pod), self._on_control)

    async def _save_when_leaving(self, stop: Stop) -> None:
        """The task in hand may not end in the time that is left."""
        await stop.wait()
        self._files.leave()

    async def _keep_lease(self, held: Held) -> None:
        """Where its files are on a volume, user code runs for as long as the session is provably this worker's."""
        if self._lease is not None:
            await self._lease.run(held)

    async def _check_fence(self) -> None:
        if self._held is not None:
            await self._fence.check(self._held)

    def _beat(self) -> WorkerBeat:
        spec, held = self._pod.spec, self._held
        state: WorkerState = "warm" if held is None else self._runner.state
        running, (reason, since_ms) = self._runner.running, self._files.reason
        return WorkerBeat(
            worker=spec.pod,
            pool=spec.pool,
            node=spec.node,
            state="frozen" if self._fence.frozen else state,
            session=held.record.session if held else None,
            tenant=held.record.tenant if held else None,
            epoch=held.record.epoch if held else 0,
            task=running.task if running else None,
            isolation=self._pod.sandbox.isolation,
            network=self._pod.sandbox.network,
            reason=reason,
            reason_ms=since_ms,
            unsaved_bytes=self._files.unsaved_bytes,
        )

    async def _hear_wakes(self, held: Held) -> None:
        subject = subjects.wake(held.record.tenant, held.record.session)
        await self._patiently_hear(subject, lambda _: self._holder.wake.set())

    async def _patiently_hear(self, subject: str, handler: Handler) -> None:
        """Subscribe, however long the servers take: the fence ends a worker that has no contact for too long."""
        while True:
            try:
                await self._bus.subscribe(subject, handler)
            except Unavailable as exc:
                log.info("subject.not_heard_yet", subject=subject, error=exc.code)
                await asyncio.sleep(SUBSCRIBE_RETRY_S)
            else:
                return

    async def _on_control(self, message: Message) -> None:
        async with self._answering:
            await self._answer(message)

    async def _answer(self, message: Message) -> None:
        try:
            order = messages.decode(message.data, CancelOrder)
        except InvalidMessage as exc:
            answer = CancelAnswer(outcome="unknown", error=exc.info())
        else:
            answer = await self._cancel(order)
        if message.reply:
            await self._bus.publish(message.reply, messages.encode(answer))

    async def _cancel(self, order: CancelOrder) -> CancelAnswer:
        """End the running task; the answer comes after the PubAck of its batch, never before."""
        running = self._runner.running
        if running is None or (running.session, running.task) != (order.session, order.task):
            return CancelAnswer(outcome="unknown")
        await self._runner.stop("cancel")
        try:
            async with asyncio.timeout(CANCEL_S):
                await running.committed.wait()
        except TimeoutError:
            return CancelAnswer(outcome="try_again")
        if running.status is None:
            return CancelAnswer(outcome="try_again")
        return CancelAnswer(
            outcome="cancelled" if running.status == "cancelled" else "finished",
            status=running.status,
        )


async def serve(pod: Pod, opening: Awaitable[Sandbox], stop: Stop) -> None:
    """Run one worker to its end, then its sandbox's.

    Args:
        pod: whose sidecar this is.
        opening: yields the sandbox once its runner has said hello.
        stop: set when the worker is to leave.

    Raises:
        ServiceError: no NATS server could be reached, or the runner does not answer.
    """
    sandbox, bus = await asyncio.gather(opening, connect(pod))
    try:
        async with probed(pod, bus):
            await Worker(pod, bus, sandbox).serve(stop)
    except* StaleEpoch as fenced:
        log.warning("session.lost", reason=str(fenced.exceptions[0]))
    except* OutcomeUnknown as gave_up:
        log.warning("session.given_up", reason=str(gave_up.exceptions[0]))
    finally:
        await sandbox.close()
        await bus.close()
