"""Histories made by hand: a clean one, for tests to spoil."""

from __future__ import annotations

from chaos.core.history import History, gather
from chaos.core.journal import chains, elements
from chaos.core.rows import (
    Accepted,
    AnyRow,
    Effect,
    Footer,
    Header,
    Nemesis,
    Op,
    Seen,
    Started,
    Stored,
    Version,
)

SID = "s-1"
STEPS = 2


class Made:
    """Writes a clean history of one session, turn by turn; rows stand in `rows` for whoever changes them."""

    def __init__(self, session: str = SID, number: int = 1, node: str = "node-1") -> None:
        """Begin with a session that a worker owns."""
        self.session, self.number, self.node = session, number, node
        self.rows: list[AnyRow] = [
            Header(time=0, run="made", seed=1, commit="c", began_ms=0, settings={"nodes": 10})
        ]
        self.journal: list[str] = []
        self.now = 0.0
        self.seq = number * 1_000_000
        self.epoch = 1
        self.turns = 0
        self.version("running")

    def tick(self, seconds: float = 0.1) -> float:
        """Let time pass; return the clock."""
        self.now = round(self.now + seconds, 6)
        return self.now

    def version(self, state: str, **fields: object) -> Version:
        """Store a version of the record."""
        self.seq += 1
        owner = f"w{self.epoch}" if state == "running" else None
        values = {"epoch": self.epoch, "owner": owner, "node": self.node if owner else None}
        row = Version(
            time=self.tick(0.001),
            at=(0, self.seq),
            session=self.session,
            state=state,  # type: ignore[arg-type]  # a state
            position=self.turns,
            tasks_done=self.turns,
            **(values | fields),  # type: ignore[arg-type]  # fields of Version
        )
        self.rows.append(row)
        return row

    def invoke(self, steps: int = STEPS, kind: str = "chat") -> Op:
        """Begin a turn."""
        token = f"{self.number}-{self.turns}"
        row = Op(
            time=self.tick(),
            type="invoke",
            f="append",
            process=self.number,
            session=self.session,
            token=token,
            task=f"task-{token}",
            kind=kind,
            steps=steps,
        )
        self.turns += 1
        self.rows += [row, Accepted(time=self.tick(), session=self.session, task=row.task)]
        return row

    def work(self, op: Op, upto: int | None = None) -> None:
        """Run a turn's steps, all or the first few, under the present epoch."""
        self.rows.append(
            Started(time=self.tick(), session=self.session, task=op.task, epoch=self.epoch)
        )
        for step in range(op.steps if upto is None else upto):
            self.rows.append(
                Effect(
                    time=self.tick(),
                    session=self.session,
                    task=op.task,
                    step=step,
                    epoch=self.epoch,
                )
            )

    def finish(self, op: Op) -> Op:
        """Store a turn's result, and tell its client."""
        self.journal += elements(op.token, op.steps)
        self.seq += 1
        self.rows.append(
            Stored(
                time=self.tick(),
                at=(0, self.seq),
                session=self.session,
                task=op.task,
                status="ok",
                epoch=self.epoch,
                worker=f"w{self.epoch}",
            )
        )
        self.version("running")
        return self.end(op, "ok", self.seen())

    def seen(self, *, whole: bool = False) -> Seen:
        """Return the journal as it is read now."""
        tokens = tuple(self.journal) if whole else ()
        return Seen(length=len(self.journal), chain=chains(self.journal)[-1], tokens=tokens)

    def end(self, op: Op, kind: str, seen: Seen | None = None, **fields: object) -> Op:
        """Tell the client what became of its call."""
        row = Op(
            time=self.tick(),
            type=kind,  # type: ignore[arg-type]  # a type
            f=op.f,
            process=op.process,
            session=op.session,
            token=op.token,
            task=op.task,
            seen=seen,
            **fields,  # type: ignore[arg-type]  # fields of Op
        )
        self.rows.append(row)
        return row

    def turn(self, kind: str = "chat") -> Op:
        """Do a whole turn; return its invocation."""
        op = self.invoke(kind=kind)
        self.work(op)
        self.finish(op)
        return op

    def lose_owner(self, fault: str = "nodes-killed", targets: tuple[str, ...] = ()) -> float:
        """Kill the node, fence the owner, and give the session to another one; return when the fault was."""
        at_s = self.fence(fault, targets)
        self.claim()
        return at_s

    def fence(self, fault: str = "nodes-killed", targets: tuple[str, ...] = ()) -> float:
        """Kill the node, and fence the owner; return when the fault was."""
        at_s = self.tick()
        hit = targets or (self.node,)
        self.rows.append(Nemesis(time=at_s, type="inject", fault=fault, targets=hit))
        self.epoch += 1
        self.tick(0.4)
        self.version("queued", revoked_at=at_s + 0.3, cause="disconnect")
        return at_s

    def claim(self) -> None:
        """Give the session to a worker of another node."""
        self.epoch += 1
        self.tick(0.2)
        self.node = "node-2"
        self.version("running")

    def read_all(self) -> None:
        """Read the whole journal, as at the end of a run."""
        row = Op(
            time=self.tick(),
            type="invoke",
            f="read",
            process=self.number,
            session=self.session,
            token=f"{self.number}-read",
            task=f"read-{self.session}",
        )
        self.seq += 1
        stored = Stored(
            time=self.tick(),
            at=(0, self.seq),
            session=self.session,
            task=row.task,
            status="ok",
            epoch=self.epoch,
            worker=f"w{self.epoch}",
        )
        self.rows += [row, stored]
        self.end(row, "ok", self.seen(whole=True))

    def close(self) -> History:
        """Come to the end; return the history."""
        self.read_all()
        self.rows.append(Footer(time=self.tick()))
        return self.history()

    def history(self) -> History:
        """Return the history of the rows as they are."""
        return gather(self.rows)

    def replace(self, old: AnyRow, new: AnyRow) -> None:
        """Put a row in another's place."""
        self.rows[self.rows.index(old)] = new
