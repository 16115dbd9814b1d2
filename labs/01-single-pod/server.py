"""One pod for everybody, as one writes it first: a process that runs each session's code in a thread, and keeps its variables.

An order is a JSON line on stdin, its answer one on stdout.
"""

import json
import sys
import threading

sessions = {}
writing = threading.Lock()


def run(order):
    """Run one task among its session's variables, and tell what it printed."""
    printed = []
    variables = sessions.setdefault(order["session"], {})
    variables["print"] = lambda *words: printed.append(" ".join(map(str, words)))
    try:
        exec(order["code"], variables)
        answer = {"id": order["id"], "stdout": "\n".join(printed)}
    except Exception as exc:  # noqa: BLE001 - whatever the user's code raises is its own
        answer = {"id": order["id"], "error": repr(exc)}
    with writing:
        print(json.dumps(answer), flush=True)


for line in sys.stdin:
    threading.Thread(target=run, args=(json.loads(line),), daemon=True).start()
