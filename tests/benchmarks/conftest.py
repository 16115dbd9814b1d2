"""The benchmarks' harness is no installed package: their programs find it beside themselves, and so do its tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
