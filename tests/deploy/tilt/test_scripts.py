"""The small programs that the Tiltfile puts into containers, or behind buttons."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pool_manager.core.pod_template import parse_template

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "deploy" / "tilt"
SERVICE = """
import os, signal, sys, time
def say(text):  # not by print, which a signal may find in its middle: it refuses to be called from there
    os.write(1, f"{text}\\n".encode())
def leave(*_):
    say("left")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
say(f"began {sys.argv[1:]}")
if sys.argv[1] == "fails":
    sys.exit(7)
while True:  # not by pause, which a signal that came just before it does not end
    time.sleep(0.05)
"""


@contextmanager
def begin(*args: str) -> Iterator[subprocess.Popen[str]]:
    """Run a service behind what runs it again, as a container does; whatever a test finds, both end with it."""
    script = (SCRIPTS / "reload.sh").read_text()
    # Under nohup, which the tests may run under, HUP is ignored, and a shell can't trap what is ignored at its start.
    defaults = ["env", "--default-signal=HUP"]
    with subprocess.Popen(
        [*defaults, "/bin/sh", "-c", script, "tilt", sys.executable, "-c", SERVICE, *args],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process writes."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_service_is_run_again_when_its_code_is_new() -> None:
    """As often as that is; TERM ends it with its own code, after it has left in its own way."""
    with begin("works", "a b") as process:
        for _ in range(3):
            assert line(process) == "began ['works', 'a b']"
            process.send_signal(signal.SIGHUP)
            assert line(process) == "left"
        assert line(process) == "began ['works', 'a b']"
        process.send_signal(signal.SIGTERM)
        assert line(process) == "left"
        assert process.wait(10) == 0


def test_a_service_that_ends_by_itself_ends_its_container() -> None:
    """With its code: what is broken is started anew, and counted, by Kubernetes."""
    with begin("fails") as process:
        assert line(process) == "began ['fails']"
        assert process.wait(10) == 7


def test_a_pool_manager_takes_the_images_that_were_just_built(tmp_path: Path) -> None:
    """In place of those in the template, which else stays as it is."""
    template = ROOT / "deploy" / "base" / "kubernetes.toml"
    script = (SCRIPTS / "pod-template.sh").read_text().replace("/tmp/", f"{tmp_path}/")
    show = 'import os; print(open(os.environ["POOL_KUBERNETES_FILE"]).read())'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "tilt", sys.executable, "-c", show],
        env={
            "PATH": os.environ["PATH"],
            "POOL_KUBERNETES_FILE": str(template),
            "WORKER_IMAGE": "registry:5000/agent-sandbox_worker:tilt-1",
            "SANDBOX_IMAGE": "registry:5000/agent-sandbox_sandbox:tilt-2",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    was, now = parse_template(template.read_text()), parse_template(done.stdout)

    assert now.worker_image == "registry:5000/agent-sandbox_worker:tilt-1"
    assert now.sandbox_image == "registry:5000/agent-sandbox_sandbox:tilt-2"
    assert (now.namespace, now.nats_servers) == (was.namespace, was.nats_servers)


@pytest.mark.parametrize(("asked", "killed"), [("", "n2"), ("n1", "n1")])
def test_the_pods_of_one_node_are_killed(tmp_path: Path, asked: str, killed: str) -> None:
    """Of the one that is named, else of the one that has most; no pod of another."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\ncase "$1" in\nget) printf "n1\\nn2\\n\\nn2\\n" ;;\n*) echo "$*" >>{tmp_path}/said ;;\nesac\n'
    )
    kubectl.chmod(0o755)

    subprocess.run(
        [SCRIPTS / "kill-node-pods.sh"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "NODE": asked},
        check=True,
        capture_output=True,
        timeout=30,
    )

    said = (tmp_path / "said").read_text()
    assert said == (
        f"delete pods -n agent-sandbox-pods --field-selector spec.nodeName={killed} --grace-period=0 --force\n"
    )


def test_without_pods_nothing_is_killed(tmp_path: Path) -> None:
    """It says so, and fails."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\n")
    kubectl.chmod(0o755)

    done = subprocess.run(
        [SCRIPTS / "kill-node-pods.sh"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert (done.returncode, done.stderr) == (1, "there is no worker pod\n")
