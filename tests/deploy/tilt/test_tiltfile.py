"""The Tiltfile calls what Tilt has, and each image, path, resource and port that it names is there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
TILTFILE = (ROOT / "Tiltfile").read_text()
WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet"}
OURS = "agent-sandbox/"
PROGRAMS = {"kubectl", "sh"}
LABEL = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def containers(one: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of an object that has some."""
    if one["kind"] not in WORKLOADS:
        return []
    pod = one["spec"]["template"]["spec"]
    return [*pod.get("initContainers", []), *pod["containers"]]


def listed(value: Any) -> list[Any]:
    """Return one or several as several."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def missing(tilt: Any) -> Iterator[str]:
    """Yield the paths that are not there."""
    named = [path for build in tilt.calls("docker_build") for path in listed(build.get("only"))]
    for build in tilt.calls("docker_build"):
        named += [build["context"], build.get("dockerfile", "."), *listed(build.get("ignore"))]
        named += [
            path
            for step in build.get("live_update", [])
            for path in listed(step.given.get("local_path")) + listed(step.given.get("files"))
        ]
    for each in tilt.calls("local_resource"):
        named += listed(each.get("deps"))
    yield from (f"{path}: there is no such path" for path in named if not (ROOT / path).exists())


def copied(dockerfile: str) -> Iterator[tuple[list[str], str]]:
    """Yield sources and destination of what a Dockerfile takes from its context."""
    joined = dockerfile.replace("\\\n", " ")
    for line in joined.splitlines():
        if line.startswith("COPY ") and "--from=" not in line:
            *sources, destination = shlex.split(line)[1:]
            yield sources, destination.rstrip("/")


def wrong_images(tilt: Any) -> Iterator[str]:
    """Yield images that nobody builds or uses, and builds or updates that can't work."""
    built = {build["ref"]: build for build in tilt.calls("docker_build")}
    used = {c["image"].split(":")[0] for one in tilt.objects for c in containers(one)}
    told = {
        each.get("value", "")
        for one in tilt.objects
        for container in containers(one)
        for each in container.get("env", [])
    }
    for image in sorted(used):
        if image.startswith(OURS) and image not in built:
            yield f"{image}: nobody builds it"
    for ref, build in built.items():
        if ref not in used and not (build.get("match_in_env_vars") and ref in told):
            yield f"{ref}: nobody uses it"
        yield from (f"{ref}: {problem}" for problem in wrong_build(build))


def wrong_build(build: dict[str, Any]) -> Iterator[str]:
    """Yield what of a build can't work."""
    text = build.get("dockerfile_contents")
    if (text is None) == ("dockerfile" not in build):
        yield "one of dockerfile and dockerfile_contents is needed"
        return
    place = ROOT / build.get("dockerfile", "")
    if text is None:
        text = place.read_text() if place.is_file() else ""
    taken = dict.fromkeys(listed(build.get("only")), "")
    goes = {source: to for sources, to in copied(text) for source in sources}
    for source in goes:
        if not any(source == path or source.startswith(f"{path}/") for path in taken):
            yield f"{source} is copied, and not in `only`"
    steps = build.get("live_update", [])
    order = [step.kind for step in steps]
    if order != sorted(order, key=["fall_back_on", "sync", "run"].index):
        yield f"steps in a wrong order: {order}"
    for step in steps:
        if step.kind == "sync":
            source, to = step.given["local_path"], step.given["remote_path"]
            if goes.get(source) != to:
                yield f"{source} is synced to {to}, it was built into {goes.get(source)}"


def wrong_resources(tilt: Any) -> Iterator[str]:
    """Yield resources, objects, labels and ports that are not there, or are twice."""
    workloads = {one["metadata"]["name"]: one for one in tilt.objects if one["kind"] in WORKLOADS}
    names = {*workloads, *(one["name"] for one in tilt.calls("local_resource"))}
    names |= {one["new_name"] for one in tilt.calls("k8s_resource") if "new_name" in one}
    locals_: list[int] = []
    taken: list[tuple[str, ...]] = []
    for each in tilt.calls("k8s_resource") + tilt.calls("local_resource"):
        name = each.get("workload") or each.get("new_name") or each.get("name")
        if "workload" in each and each["workload"] not in workloads:
            yield f"{name}: there is no such workload"
            continue
        for other in each.get("resource_deps", []):
            if other not in names:
                yield f"{name}: waits for {other}, which there is not"
        for label in listed(each.get("labels")):
            if not LABEL.fullmatch(label):
                yield f"{name}: {label!r} is no label"
        open_ports = {
            port["containerPort"]
            for container in containers(workloads.get(name, {"kind": ""}))
            for port in container.get("ports", [])
        }
        for local, there in map(port_of, listed(each.get("port_forwards"))):
            locals_.append(local)
            if there not in open_ports:
                yield f"{name}: no container has port {there}"
        for text in each.get("objects", []):
            yield from (f"{name}: {problem}" for problem in wrong_object(tilt, text, taken))
    for port in {one for one in locals_ if locals_.count(one) > 1}:
        yield f"port {port} of this machine is taken twice"


def port_of(given: Any) -> tuple[int, int]:
    """Return local and container port of what `port_forwards` takes."""
    if hasattr(given, "local"):
        return given.local, given.container
    *_, local, there = [int(part) for part in str(given).split(":")[-2:] * 2][-2:]
    return local, there


def wrong_object(tilt: Any, text: str, taken: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield why a selector selects nothing, several, or what a resource has already."""
    wanted = text.lower().split(":")
    fits = []
    for one in tilt.objects:
        about = one["metadata"]
        parts = (about["name"].lower(), one["kind"].lower(), about.get("namespace", "").lower())
        if all(want in ("", part) for want, part in zip(wanted, parts, strict=False)):
            fits.append(parts)
    if len(fits) != 1:
        yield f"{text} selects {len(fits)} objects"
    elif fits[0] in taken or fits[0][1] in {"service", *(kind.lower() for kind in WORKLOADS)}:
        yield f"{text} is in a resource already"
    else:
        taken.append(fits[0])


def wrong_buttons(tilt: Any) -> Iterator[str]:
    """Yield buttons at nothing, that run nothing, or whose inputs their program does not know."""
    workloads = {one["metadata"]["name"] for one in tilt.objects if one["kind"] in WORKLOADS}
    names = workloads | {one["name"] for one in tilt.calls("local_resource")}
    for button in tilt.calls("cmd_button"):
        name, argv = button["name"], button.get("argv") or [""]
        if button.get("location") != "nav" and button.get("resource") not in names:
            yield f"{name}: there is no resource {button.get('resource')}"
        program = ROOT / argv[0]
        if argv[0] not in PROGRAMS and not (program.is_file() and os.access(program, os.X_OK)):
            yield f"{name}: {argv[0]} is no program"
            continue
        for each in button.get("inputs", []):
            if program.is_file() and f"${{{each['name']}" not in program.read_text():
                yield f"{name}: its program does not know {each['name']}"


def problems(tilt: Any) -> list[str]:
    """Return all that is wrong with what a Tiltfile said."""
    return [
        *missing(tilt),
        *wrong_images(tilt),
        *wrong_resources(tilt),
        *wrong_buttons(tilt),
    ]


@pytest.fixture(scope="module")
def said(evaluate: Callable[[str], Any]) -> Any:
    """What this repository's Tiltfile says."""
    return evaluate(TILTFILE)


def test_all_that_it_names_is_there(said: Any) -> None:
    """And all that is deployed has a resource and a group of its own."""
    assert problems(said) == []
    assert len(said.calls("docker_build")) == 4
    workloads = {one["metadata"]["name"] for one in said.objects if one["kind"] in WORKLOADS}
    grouped = {
        one["workload"]
        for one in said.calls("k8s_resource")
        if one.get("labels") and "workload" in one
    }
    assert grouped == workloads
    assert {button["name"] for button in said.calls("cmd_button")} == {
        "publish-task",
        "kill-node-pods",
    }


def test_each_service_is_run_again_by_a_live_update(said: Any) -> None:
    """Its program is the one of the manifests, behind what runs it again; its file system takes the new code."""
    services = [
        container
        for one in said.objects
        for container in containers(one)
        if container["image"].startswith("agent-sandbox/services")
    ]
    assert len(services) == 5
    for container in services:
        assert container["command"][:2] == ["/bin/sh", "-c"]
        assert "trap again HUP" in "".join(container["command"])
        assert container["command"][-3:-1] == ["python", "-m"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is False
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize(
    ("there", "instead", "said_of_it"),
    [
        ("'shared/src',\n    'sdk/src'", "'shared/source',\n    'sdk/src'", "shared/source: there is no such path"),
        ("'deploy/overlays/dev'", "'deploy/overlays/deb'", "deploy/overlays/deb: there is no such path"),
        ("dockerfile='deploy/images/nats.Dockerfile'", "dockerfile='deploy/images/nat.Dockerfile'", "nat.Dockerfile: there is no such path"),
        ("only=['requirements.lock'])", "only=['README.md'])", "requirements.lock is copied, and not in `only`"),
        ("APP = '/opt/agent-sandbox/app'", "APP = '/opt/agent-sandbox/apps'", "is synced to /opt/agent-sandbox/apps"),
        ("SERVICES = 'agent-sandbox/services'", "SERVICES = 'agent-sandbox/service'", "agent-sandbox/services: nobody builds it"),
        ("'value': WORKER}", "'value': 'other'}", "agent-sandbox/worker: nobody uses it"),
        ("k8s_resource('gateway'".replace("('", "(\n    '"), "k8s_resource(\n    'gate-way'", "gate-way: there is no such workload"),
        ("'9091:9090'", "'9091:9092'", "pool-manager: no container has port 9092"),
        ("port_forward(8080, 8080", "port_forward(9091, 8080", "port 9091 of this machine is taken twice"),
        ("WORKLOADS + ['Service']]", "WORKLOADS]", "is in a resource already"),
        ("resource_deps=['nats'], port_forwards=['9", "resource_deps=['gnats'], port_forwards=['9", "waits for gnats"),
        ("labels=['tools']", "labels=['t/o']", "'t/o' is no label"),
        ("resource='pool-manager'", "resource='pool-boss'", "there is no resource pool-boss"),
        ("argv=['deploy/tilt/publish-task.sh']", "argv=['deploy/tilt/publish.sh']", "publish.sh is no program"),
        ("text_input('NODE'", "text_input('HOST'", "does not know HOST"),
        ("[run('kill -HUP 1')]", "[run('kill -HUP 1'), sync('shared/src', APP)]", "wrong order"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_found(
    evaluate: Callable[[str], Any], there: str, instead: str, said_of_it: str
) -> None:
    """A wrong path, image, resource, port, object, label or button: else this file would let anything pass."""
    assert there in TILTFILE
    try:
        found = problems(evaluate(TILTFILE.replace(there, instead)))
    except ValueError as exc:
        found = [str(exc)]
    assert any(said_of_it in one for one in found), found


@pytest.mark.parametrize(
    ("line", "said_of_it"),
    [
        ("docker_built('a', '.')", "not found"),
        ("docker_build('a')", "missing argument context"),
        ("docker_build('a', '.', dockerfiles='b')", "unexpected argument dockerfiles"),
        ("docker_build('a', '.', context='.')", "context is given twice"),
        ("docker_build('a', '.', live_update='b')", "live_update is str"),
        ("docker_build('a', '.', pull='yes')", "pull is str"),
        ("sync('a', 'b', 'c')", "3 arguments, it takes 2"),
        ("k8s_resource('a', port_forwards={})", "port_forwards is dict"),
        ("load('ext://buttons', 'cmd_button')", "no extension that is known"),
        ("load('ext://uibutton', 'cmd_buttons')", "cmd_buttons"),
        ("cmd_button('a', icon='b')", "unexpected argument icon"),
        ("read_file('nothing')", "nothing: there is no such path"),
        ("import os", "error"),
        ("open('README.md')", "not found"),
    ],
)
def test_what_tilt_has_not_is_refused(
    evaluate: Callable[[str], Any], line: str, said_of_it: str
) -> None:
    """Functions, arguments and kinds of them that its published signatures do not know."""
    loads = "" if line.startswith("load") else "load('ext://uibutton', 'cmd_button')\n"
    with pytest.raises(ValueError, match=re.escape(said_of_it)):
        evaluate(f"{loads}{line}\n")
