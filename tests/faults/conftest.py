"""The drive lies beside the benchmarks, which are no installed package."""

from __future__ import annotations

import sys
from pathlib import Path

# Behind all others: `benchmarks/gateway.py` has the name of a package of ours.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
