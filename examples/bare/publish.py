"""Publish a task with nothing but a NATS client, and wait for its result. Usage: publish.py SERVER CREDENTIAL_FILE"""

import asyncio
import json
import sys
import uuid

import nats


async def main(server: str, credential: str) -> None:
    """The ten lines: connect, subscribe to the result, publish, wait for the PubAck, wait for the result."""
    nc = await nats.connect(server, user_credentials=credential, inbox_prefix="_INBOX_c-default")
    task = str(uuid.uuid4())  # its id; the same id runs once, however often it is published
    done = await nc.subscribe(f"done.default.{task}.{task}")
    body = {"kind": "command", "argv": ["python3", "-c", "print(6 * 7)"]}
    ack = await nc.request(
        "task.default.default.interactive",
        json.dumps(body).encode(),
        headers={"Nats-Msg-Id": task},
        timeout=2,
    )
    print("accepted:", ack.data.decode())
    message = await done.next_msg(timeout=30)
    result = json.loads(message.data)
    print("result:", result["status"], result["exit_code"], result["stdout"]["text"])
    stored = await nc.request(f"result.default.{task}.{task}", timeout=2)  # the same, at any time
    assert json.loads(stored.data) == result
    await nc.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
