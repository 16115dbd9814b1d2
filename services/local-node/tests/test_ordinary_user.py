"""The same walls for a node without root: an ordinary user runs the tests of pods and attacks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from shared.testing.ordinary import as_ordinary_user, environment

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


CONTAINED = str(HERE / "kit" / "contained.py")


@pytest.mark.timeout(180)
@pytest.mark.skipif(os.geteuid() != 0, reason="this run is an ordinary user's already")
@pytest.mark.slow
@pytest.mark.parametrize("contained", [False, True], ids=["on-the-machine", "in-a-container"])
def test_an_ordinary_users_node_holds_the_same(everybodys_python: str, contained: bool) -> None:
    """Landlock alone, where a container refuses namespaces; both where it does not: every test passes there too."""
    writes_nothing = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    command = [everybodys_python, "-m", "pytest", "-v", "--color=no", *writes_nothing]
    files = [
        str(HERE / name) for name in ("test_attacks.py", "test_limits_hold.py", "test_pods.py")
    ]

    done = subprocess.run(
        [*([everybodys_python, CONTAINED] if contained else []), *command, *files],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
        **as_ordinary_user(),
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.findall(r"\[(\w+)\] PASSED", done.stdout)
    assert passed.count("landlock") >= 25
    without = contained or not _may_make_namespaces(everybodys_python)
    assert (passed.count("namespace") == 0) == without


def _may_make_namespaces(python: str) -> bool:
    """Return whether an ordinary user may here; this machine may be a container itself."""
    flags = 0x00020000 | 0x20000000 | 0x40000000 | 0x10000000  # CLONE_NEW{NS,PID,NET,USER}
    attempt = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({flags}) != 0)"
    done = subprocess.run([python, "-c", attempt], check=False, timeout=20, **as_ordinary_user())
    return done.returncode == 0
