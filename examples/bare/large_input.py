"""Put a file of any size into the object store with nothing but a NATS client, and run a task on it.

Usage: large_input.py SERVER CREDENTIAL_FILE FILE
"""

import asyncio
import hashlib
import json
import pathlib
import sys
import uuid

import nats

CHUNK_BYTES = 256 * 1024


async def main(server: str, credential: str, local: str) -> None:
    """Chunks first, one after the other; then the task, which names the object and its digest."""
    nc = await nats.connect(server, user_credentials=credential, inbox_prefix="_INBOX_c-default")
    name, digest, size, number = str(uuid.uuid4()), hashlib.sha256(), 0, 0
    with pathlib.Path(local).open("rb") as file:  # noqa: ASYNC230 - short, and nothing else waits
        while chunk := file.read(CHUNK_BYTES):
            subject = f"object.{number % 3}.default.{name}.{number}"
            headers = {"Nats-Msg-Id": f"{name}:{number}"}  # sent again, it is stored once
            ack = json.loads((await nc.request(subject, chunk, headers=headers, timeout=4)).data)
            assert "error" not in ack, ack
            digest.update(chunk)
            size, number = size + len(chunk), number + 1
    content = {"id": name, "size_bytes": size, "sha256": digest.hexdigest()}
    given = {"path": "in", "object": content | {"chunk_bytes": CHUNK_BYTES}}
    body = {"kind": "command", "argv": ["sha256sum", "in"], "files": [given]}
    task = str(uuid.uuid4())
    lane, message_id = "task.default.default.interactive", {"Nats-Msg-Id": task}
    await nc.request(lane, json.dumps(body).encode(), headers=message_id, timeout=2)
    where = f"result.default.{task}.{task}"
    while not (stored := await nc.request(where, timeout=2)).data:  # noqa: ASYNC110 - it is asked for
        await asyncio.sleep(0.1)
    result = json.loads(stored.data)
    print("result:", result["status"], result["stdout"]["text"].split()[0] == digest.hexdigest())
    await nc.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
