"""What eight users send: one small task again and again; and one of them something else."""

SESSIONS = 8
MEMORY_MIB = 192
"""What a pod may have."""

SMALL = "x = globals().get('x', 0) + 1\nprint(x)"
"""Counts in a variable that lives as long as its session."""

BUSY = """
import re, time

def match(letters):  # a pattern that tries every way to cut the letters up: one more letter, twice the time
    began = time.thread_time()
    re.match("(a+)+$", "a" * letters + "b")
    return time.thread_time() - began

letters = 14
while match(letters) < 0.2:
    letters += 1
print(match(letters + 4))
"""
"""Three seconds or more of one regular expression, which never lets go of the interpreter's lock."""

HUNGRY = """
kept = []
for block in range(64):
    kept.append(bytearray(16 << 20))
    kept[-1][::4096] = b"x" * len(kept[-1][::4096])
print("had 1 GiB")
"""

KEEP_SECRET = "token = 'token-of-session-{number}'"


def hostile(path: str) -> str:
    """Look for secrets: in the environment, where they are mounted, and in what others hold in memory."""
    return f"""
import gc, os

found = []
if "MODEL_KEY" in os.environ:
    found.append("the service's environment")
try:
    with open({path!r}) as file:
        found.append("the mounted file " + file.name if file.read() else "")
except OSError:
    pass
for thing in gc.get_objects():
    if isinstance(thing, dict) and str(thing.get("token", "")).startswith("token-of-session-"):
        if thing["token"] != globals().get("token"):
            found.append("another session's variables")
            break
print(len(found), "; ".join(found))
"""
