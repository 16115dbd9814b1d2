"""A Kubernetes cluster as one place for pods: what it has, what ended there, which of its nodes are dead. Pure.

Kubernetes itself finds a node for each pod. So to the plan a cluster is one node with a heartbeat, made here of what the
watches tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

import msgspec

from pool_manager.core.kube_classes import POD_CLASSES, classes, has_user_namespaces
from pool_manager.core.kube_forms import FORM, form_of
from pool_manager.core.kube_pods import PLACE, Labels, Pod, read_pod, removed
from pool_manager.core.pod_form import ISOLATION, LANES, POOL
from pool_manager.core.pod_template import PodTemplate
from shared.kube.views import NodeView, PodView, RuntimeClassView
from shared.messages import NodeBeat, PodGone
from shared.pools import PoolSpec

LABELS = Labels(POOL, ISOLATION, LANES, FORM)


class Gone(msgspec.Struct, frozen=True):
    """A pod that is no more, or of no use any more."""

    pool: str
    gone: PodGone


class Cluster:
    """Keeps a copy of pods, nodes and runtime classes."""

    def __init__(self, template: PodTemplate) -> None:
        """Know nothing yet."""
        self.template = template
        self.pods: dict[str, Pod] = {}
        """By name; also those that ended, until their objects are gone."""
        self.nodes: dict[str, NodeView] = {}
        self.runtimes: dict[str, RuntimeClassView] = {}
        self.dead: frozenset[str] = frozenset()
        """Nodes that say nothing in any way."""
        self.heard: frozenset[str] = frozenset()
        """Nodes of which somebody was heard within T_fence."""
        self.hears = False
        """Whether a node that is not in `heard` is silent: nothing of it can have been missed, and others are heard."""
        self.volumes: dict[str, str] = {}
        """Pool -> what is wrong with its volume."""
        self._lost: dict[str, str] = dict.fromkeys(
            ("pods", "nodes", "runtimes"), "the cluster has not been read yet"
        )
        self._listed = False
        self._forms: dict[str, dict[str, str]] = {}

    # --------------------------------------------------------------------------------------------------------- pods

    def list_pods(self, views: Iterable[PodView], now: float) -> list[Gone]:
        """Take in all pods that there are; return those that ended."""
        self._listed = True
        listed = {view.metadata.name: view for view in views}
        ended = [self.remove_pod(name) for name in self.pods.keys() - listed.keys()]
        ended += [self.see_pod(view, now) for view in listed.values()]
        return [gone for gone in ended if gone is not None]

    def see_pod(self, view: PodView, now: float) -> Gone | None:
        """Take in a new or changed pod; return how it ended, once, if it did."""
        pod, before = read_pod(view, LABELS), self.pods.get(view.metadata.name)
        pod.seen_at = now
        if before is not None and before.uid == pod.uid:
            pod.seen_at, pod.started_at = before.seen_at, before.started_at
            pod.over = before.over or pod.over
        if pod.is_started and pod.started_at is None:
            pod.started_at = now
        self.pods[pod.name] = pod
        was_over = before is not None and before.uid == pod.uid and before.over is not None
        return None if pod.over is None or was_over else Gone(pod.pool, pod.over)

    def remove_pod(self, name: str, uid: str | None = None) -> Gone | None:
        """Take in that a pod's object is gone; return how it ended, unless that was said before.

        Args:
            name: of the pod.
            uid: of the one that is gone: a successor of its name stays.
        """
        pod = self.pods.get(name)
        if pod is None or (uid is not None and pod.uid != uid):
            return None
        del self.pods[name]
        return Gone(pod.pool, removed(pod)) if pod.over is None else None

    def give_up(self, name: str, cause: str, detail: str) -> Gone | None:
        """A pod is of no use any more, whatever its object says; return that, once."""
        pod = self.pods.get(name)
        if pod is None or pod.over is not None:
            return None
        pod.over = PodGone(pod=name, node=pod.node or PLACE, cause=cause, detail=detail)
        return Gone(pod.pool, pod.over)

    def living(self, node: str | None = None) -> list[Pod]:
        """Return the pods that live, all or those of a node."""
        return [
            pod
            for pod in self.pods.values()
            if pod.over is None and (node is None or pod.node == node)
        ]

    def over(self, needed: Set[str]) -> list[tuple[Pod, bool]]:
        """Return pods that are over and whose objects are there yet, each with whether only force removes it.

        Args:
            needed: pods that stay for now, if their node lives: a pod's files go with its object.
        """
        found = []
        for pod in self.pods.values():
            forced = pod.node in self.dead
            stays = pod.is_ending or pod.name in needed
            if pod.over is not None and (forced or not stays):
                found.append((pod, forced))
        return found

    def overdue(self, pending_s: float, now: float) -> list[Pod]:
        """Return pods that did not start in time."""
        return [p for p in self.living() if p.started_at is None and now - p.seen_at > pending_s]

    def stuck(self, pool: str, pending_s: float, now: float) -> str:
        """Return why pods of a pool do not start, and when the first of them is tried anew; empty: they do."""
        if pool in self.volumes:
            return self.volumes[pool]
        mine = [p for p in self.living() if p.pool == pool and p.started_at is None and p.stuck]
        if not mine:
            return ""
        first = min(mine, key=lambda pod: pod.seen_at)
        next_s = max(first.seen_at + pending_s - now, 0.0)
        return f"{len(mine)} pods do not start: {first.stuck} (next try in {next_s:.0f} s)"

    def forms(self, pool: PoolSpec) -> dict[str, str]:
        """Return isolation class -> digest of the form that pods of a pool get now."""
        if pool.name not in self._forms:
            names = self.template.runtime_classes
            self._forms[pool.name] = {name: form_of(self.template, pool, name) for name in names}
        return self._forms[pool.name]

    # ------------------------------------------------------------------------------------------------------- nodes

    def lost(self, what: str, why: str) -> None:
        """There is no watch of `pods` or `nodes` now; an empty reason: there is one again."""
        if why:
            self._lost[what] = why
        else:
            self._lost.pop(what, None)

    def pods_on(self) -> dict[str, list[Pod]]:
        """Return node -> living pods on it, of all nodes that are known."""
        on: dict[str, list[Pod]] = {name: [] for name in self.nodes}
        for pod in self.living():
            if pod.node:
                on.setdefault(pod.node, []).append(pod)
        return on

    def judge_nodes(
        self, is_silent: Callable[[str, list[Pod]], bool | None], on: Mapping[str, list[Pod]]
    ) -> frozenset[str]:
        """Find the nodes that are dead; return those that were not so before.

        Args:
            is_silent: of a node with these living pods: whether all signs of life are missing; None: there never
                were any that would be missed.
            on: the pods of each, from `pods_on` now.
        """
        verdicts = {name: is_silent(name, pods) for name, pods in on.items()}
        silent = frozenset(name for name, verdict in verdicts.items() if verdict)
        unknown = frozenset(name for name, verdict in verdicts.items() if verdict is None)
        # If nobody is heard at all, it is this process that hears nothing, or the servers between.
        dead = silent if False in verdicts.values() else self.dead & silent
        dead |= self.dead & unknown
        new, self.dead = dead - self.dead, dead
        return new

    @property
    def avoid(self) -> tuple[str, ...]:
        """Nodes that a new pod must not go to, although Kubernetes takes them for alive."""
        return tuple(sorted(self.dead))

    @property
    def has_user_namespaces(self) -> bool:
        """Whether pods of class `oci` get one now."""
        return has_user_namespaces(self.template, self.nodes.values(), self.runtimes)

    def beat(self) -> NodeBeat | None:
        """Return the heartbeat of the whole cluster; None: nothing is known of it yet."""
        if not self._listed:
            return None
        living = self.living()
        return NodeBeat(
            node=PLACE,
            started_ms=1,  # its pods outlive any process of ours
            pods=tuple(pod.name for pod in living),
            pending=tuple(pod.name for pod in living if pod.started_at is None),
            capacity=self.template.capacity,
            isolation=self._classes(),
        )

    def _classes(self) -> dict[str, str]:
        for why in self._lost.values():
            return dict.fromkeys(POD_CLASSES, why)
        there = [node for name, node in self.nodes.items() if name not in self.dead]
        return classes(self.template, there, self.runtimes)
