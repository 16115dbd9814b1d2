"""Work that takes seconds and says how far it is; its worker may be killed at any moment. Usage: FILE SECONDS"""

import sys
import time
from pathlib import Path

lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
pause_s = float(sys.argv[2]) / len(lines)
total = 0
for number, line in enumerate(lines, start=1):
    total += len(line.split())
    print(f"line {number} of {len(lines)}: {total} words so far", flush=True)
    time.sleep(pause_s)
print(f"done: {total} words in {len(lines)} lines", flush=True)
