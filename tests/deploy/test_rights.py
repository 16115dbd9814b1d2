"""Who may what: containers, the network, the Kubernetes API. Nobody has more than it needs."""

from __future__ import annotations

from tests.deploy.conftest import Asked, Manifest, containers, matches, named, pod_templates


def test_no_container_runs_unbounded_or_unconfined(manifests: list[Manifest]) -> None:
    """Limits, no new rights, no capabilities but the checkpointer's, a root file system that nobody writes."""
    for name, container, pod in containers(manifests):
        resources, confined = container["resources"], container["securityContext"]
        assert {"cpu", "memory"} <= resources["requests"].keys(), name
        assert {"cpu", "memory"} <= resources["limits"].keys(), name
        assert confined["allowPrivilegeEscalation"] is False, name
        assert confined["readOnlyRootFilesystem"] is True, name
        assert confined["capabilities"]["drop"] == ["ALL"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        is_checkpointer = name == "checkpointer/checkpointer"
        assert ("add" in confined["capabilities"]) == is_checkpointer, name
        assert bool(pod["securityContext"].get("runAsNonRoot")) != is_checkpointer, name
        assert not pod.get("hostNetwork")
        assert not pod.get("hostPID")


def test_network_policies_deny_by_default_and_name_what_is_there(manifests: list[Manifest]) -> None:
    """Each namespace is shut both ways; what a policy opens is a port of the pods that it is about."""
    templates = [
        (space, template["metadata"]["labels"], template["spec"])
        for _, space, template in pod_templates(manifests)
    ]
    for space in named(manifests, "Namespace"):
        policies = named(manifests, "NetworkPolicy", space)
        assert policies["default-deny"]["spec"] == {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
        }
        for name, policy in policies.items():
            spec = policy["spec"]
            found = [
                pod
                for where, labels, pod in templates
                if where == space and matches(spec["podSelector"], labels)
            ]
            if space != "agent-sandbox-pods":
                assert found, f"{space}/{name} is about nobody"
            ports = {
                p["containerPort"] for pod in found for c in pod["containers"] for p in c["ports"]
            }
            for rule in spec.get("ingress", []):
                assert rule["from"], f"{space}/{name} lets in anybody"
                assert {port["port"] for port in rule["ports"]} <= ports


def test_rights_are_those_that_are_needed(manifests: list[Manifest]) -> None:
    """No wildcards, no rights of the provisioner's kind elsewhere, and each binding binds what is there."""
    for each in manifests:
        space = each["metadata"].get("namespace", "")
        if each["kind"] in ("Role", "ClusterRole"):
            for rule in each["rules"]:
                assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
                if "secrets" in rule["resources"]:
                    assert each["metadata"]["name"] == "provisioner"
        if each["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            role = each["roleRef"]
            assert role["name"] in named(
                manifests, role["kind"], space if role["kind"] == "Role" else ""
            )
            for subject in each["subjects"]:
                assert subject["name"] in named(manifests, "ServiceAccount", subject["namespace"])
    for name, space, template in pod_templates(manifests):
        account = named(manifests, "ServiceAccount", space)[template["spec"]["serviceAccountName"]]
        assert account["automountServiceAccountToken"] is False
        has_token = template["spec"]["automountServiceAccountToken"]
        assert has_token == (name in ("provisioner", "pool-manager"))


async def test_the_provisioner_may_do_what_it_does(manifests: list[Manifest], asked: Asked) -> None:
    """Each request that it makes is granted by its roles, and each grant is used by one."""
    plural = {
        "Secret": "secrets", "ConfigMap": "configmaps", "Deployment": "deployments", "StatefulSet": "statefulsets",
    }  # fmt: skip
    granted = set()
    for space in named(manifests, "Namespace"):
        for rule in named(manifests, "Role", space).get("provisioner", {"rules": []})["rules"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    granted |= {
                        (verb, resource, space, name) for name in rule.get("resourceNames", [""])
                    }
    needed = {(verb, plural[kind], space, name) for verb, kind, space, name in asked.verbs}
    free = {grant[:3] for grant in granted if not grant[3]}

    assert {each for each in needed if each not in granted and each[:3] not in free} == set()
    assert {g for g in granted if g not in needed and g[:3] not in {n[:3] for n in needed}} == set()
