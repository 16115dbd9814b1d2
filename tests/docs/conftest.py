"""The benchmarks' harness, which writes the figures of pages, is no installed package."""

from __future__ import annotations

import sys
from pathlib import Path

# Behind all others: `benchmarks/gateway.py` has the name of a package of ours.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
