"""Publish a task with nothing but a NATS client, and read its result. Usage: publish.py SERVER CREDENTIAL_FILE"""

import asyncio
import json
import sys
import uuid

import nats


async def main(server: str, credential: str) -> None:
    """The ten lines: connect, publish, wait for the PubAck, read the result."""
    nc = await nats.connect(server, user_credentials=credential, inbox_prefix="_INBOX_c-default")
    task = str(uuid.uuid4())  # its id; the same id runs once, however often it is published
    body = json.dumps({"kind": "command", "argv": ["python3", "-c", "print(6 * 7)"]}).encode()
    lane = "task.default.default.interactive"
    ack = await nc.request(lane, body, headers={"Nats-Msg-Id": task}, timeout=2)
    print("accepted:", ack.data.decode())
    where = f"result.default.{task}.{task}"
    while not (stored := await nc.request(where, timeout=2)).data:  # noqa: ASYNC110 - it is asked for
        await asyncio.sleep(
            0.1
        )  # there is none yet; or hear it: subscribe to done.default.<task>.<task>
    result = json.loads(stored.data)
    print("result:", result["status"], result["exit_code"], result["stdout"]["text"])
    await nc.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
