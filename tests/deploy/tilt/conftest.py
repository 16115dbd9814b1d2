"""Tilt without Tilt: what a Tiltfile may call, by the signatures that Tilt publishes, and what it has said by its end.

A Tiltfile runs in a Starlark interpreter. Its functions are names here that check their arguments and note what they are
called with; the few whose answer the file goes on with (`read_file`, `kustomize`, YAML) really answer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import starlark
import yaml

ROOT = Path(__file__).parents[3]
API = tomllib.loads((Path(__file__).parent / "api.toml").read_text())
BUTTONS = "ext://uibutton"


class TiltError(ValueError):
    """What Tilt would not take."""


@dataclass(frozen=True)
class Step:
    """A step of a live update."""

    kind: str
    given: dict[str, Any]


@dataclass(frozen=True)
class Port:
    """A port that is forwarded."""

    local: int
    container: int


class Parameter(NamedTuple):
    """One of a function's."""

    name: str
    required: bool
    takes: tuple[str, ...]


@cache
def parameters(library: str, function: str) -> tuple[Parameter, ...]:
    """Return a function's parameters."""
    found = []
    for part in filter(None, API[library][function].split(", ")):
        name, takes = part.split(": ")
        kinds = tuple(takes.split("|"))
        found.append(Parameter(name.rstrip("?"), not name.endswith("?"), kinds))
    return tuple(found)


def _is(value: object, kind: str) -> bool:
    match kind:
        case "str" | "blob" | "mode":
            return isinstance(value, str)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "bool":
            return isinstance(value, bool)
        case "dict":
            return isinstance(value, dict)
        case "list":
            return isinstance(value, list | tuple)
        case "step":
            return isinstance(value, list) and all(isinstance(one, Step) for one in value)
        case "port":
            many = value if isinstance(value, list) else [value]
            return all(isinstance(one, str | int | Port) for one in many)
        case _:
            return True


def bound(
    library: str, function: str, args: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments by name.

    Raises:
        TiltError: too many, unknown, missing, given twice, or of a kind that it does not take.
    """
    known = parameters(library, function)
    if len(args) > len(known):
        raise TiltError(f"{function}: {len(args)} arguments, it takes {len(known)}")
    given = {parameter.name: value for parameter, value in zip(known, args, strict=False)}
    for name in named:
        if name not in {one.name for one in known}:
            raise TiltError(f"{function}: unexpected argument {name}")
        if name in given:
            raise TiltError(f"{function}: {name} is given twice")
    given |= named
    for parameter in known:
        if parameter.name not in given:
            if parameter.required:
                raise TiltError(f"{function}: missing argument {parameter.name}")
            continue
        value = given[parameter.name]
        if value is not None and not any(_is(value, kind) for kind in parameter.takes):
            raise TiltError(f"{function}: {parameter.name} is {type(value).__name__}: {value!r}")
    return given


class Tilt:
    """What one Tiltfile says."""

    def __init__(self, root: Path) -> None:
        """Evaluate for a repository's root."""
        self.root = root
        self.called: list[tuple[str, dict[str, Any]]] = []
        self.objects: list[dict[str, Any]] = []

    def run(self, text: str) -> None:
        """Evaluate a Tiltfile.

        Raises:
            TiltError: it does not parse, or calls what there is not.
        """
        module = starlark.Module()
        for name in API["functions"]:
            module.add_callable(name, partial(self._call, "functions", name))
        for mode in ("TRIGGER_MODE_AUTO", "TRIGGER_MODE_MANUAL"):
            module[mode] = mode
        known = starlark.Globals.extended_by([starlark.LibraryExtension.StructType])
        try:
            parsed = starlark.parse("Tiltfile", text, starlark.Dialect.extended())
            starlark.eval(module, parsed, known, starlark.FileLoader(self._load))
        except starlark.StarlarkError as exc:
            raise TiltError(str(exc)) from exc

    def calls(self, function: str) -> list[dict[str, Any]]:
        """Return what a function was called with, each time."""
        return [given for name, given in self.called if name == function]

    def path(self, path: str) -> Path:
        """Return a path of the Tiltfile.

        Raises:
            TiltError: there is nothing.
        """
        found = self.root / path
        if not found.exists():
            raise TiltError(f"{path}: there is no such path")
        return found

    def _load(self, name: str) -> starlark.FrozenModule:
        if name not in API or not name.startswith("ext://"):
            raise TiltError(f"load: {name} is no extension that is known here")
        module = starlark.Module()
        for function in API[name]:
            module.add_callable(function, partial(self._call, name, function))
        known = starlark.Globals.extended_by([starlark.LibraryExtension.StructType])
        places = 'location = struct(RESOURCE = "resource", NAV = "nav")'
        starlark.eval(module, starlark.parse(name, places), known)
        return module.freeze()

    def _call(self, library: str, function: str, *args: Any, **named: Any) -> Any:
        given = bound(
            library, function, tuple(map(_ours, args)), {k: _ours(v) for k, v in named.items()}
        )
        self.called.append((function, given))
        answer: Callable[..., Any] | None = getattr(self, f"_{function}", None)
        if answer is not None:
            return answer(**given)
        if function in {"sync", "run", "fall_back_on", "initial_sync", "restart_container"}:
            return starlark.OpaquePythonObject(Step(function, given))
        return None

    def _read_file(self, file_path: str, default: str | None = None) -> str:
        if default is not None and not (self.root / file_path).exists():
            return default
        return self.path(file_path).read_text()

    def _kustomize(self, pathToDir: str) -> str:  # noqa: N803 - Tilt's name
        return kustomized(self.path(pathToDir))

    def _decode_yaml_stream(self, yaml: str) -> list[Any]:
        return _decoded(yaml)

    def _encode_yaml_stream(self, objs: list[Any]) -> str:
        return yaml.dump_all(objs, Dumper=yaml.CSafeDumper)

    def _k8s_yaml(self, yaml: str, allow_duplicates: bool = False) -> None:
        """Take objects: a blob, which is more than one line, or a path."""
        text = yaml if "\n" in yaml else self.path(yaml).read_text()
        for one in _decoded(text):
            same = [known for known in self.objects if key(known) == key(one)]
            if same and not allow_duplicates:
                raise TiltError(f"k8s_yaml: {':'.join(key(one))} is there twice")
            self.objects.append(one)

    def _port_forward(
        self, local_port: int, container_port: int | None = None, **_more: Any
    ) -> Any:
        return starlark.OpaquePythonObject(Port(local_port, container_port or local_port))

    def _text_input(self, **given: Any) -> dict[str, Any]:
        return given

    def _k8s_context(self) -> str:
        return "kind-kind"

    def _fail(self, msg: str) -> None:
        raise TiltError(msg)


def _ours(value: Any) -> Any:
    """Return a value with lists and tables of Python's own."""
    if isinstance(value, list | tuple):
        return [_ours(one) for one in value]
    if isinstance(value, dict):
        return {name: _ours(one) for name, one in value.items()}
    return value


@cache
def _decoded(text: str) -> list[Any]:
    return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]


def key(one: dict[str, Any]) -> tuple[str, str, str]:
    """Return name, kind and namespace of an object, in small letters."""
    about = one["metadata"]
    return about["name"].lower(), one["kind"].lower(), about.get("namespace", "").lower()


@cache
def kustomized(folder: Path) -> str:
    """Return the objects of a folder; kubectl's own kustomize, which asks no cluster."""
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "KUBECONFIG": os.devnull},
    )
    if done.returncode != 0:
        raise TiltError(f"kustomize: {done.stderr}")
    return done.stdout


@pytest.fixture(scope="session")
def evaluate() -> Callable[[str], Tilt]:
    """Evaluates a Tiltfile's text for this repository."""
    if (
        shutil.which("kubectl") is None
    ):  # within the interpreter a skip would be an error of the file
        pytest.skip("there is no kubectl")

    def run(text: str) -> Tilt:
        tilt = Tilt(ROOT)
        tilt.run(text)
        return tilt

    return run
