#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every object of deploy/k8s and examples/k8s against the published schemas of Kubernetes 1.25 to 1.37 (PyPI's
kubernetes-validate), and a few rules that no schema has."""

import pathlib
import sys
import unittest

import yaml

try:
    import kubernetes_validate
except ImportError:
    print("kubernetes-validate is not installed: ./scripts/setup installs it")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VERSIONS = [f"1.{minor}" for minor in range(25, 38)]
# APIs that went, and the last minor version that has them.
LAST = {"autoscaling/v2beta2": 25}
# APIs that came later than the oldest, and the first that has them.
FIRST = {"resource.k8s.io/v1": 34}
OURS = {"farcall.io": "deploy/k8s/claims", "elasticgpu.io": "deploy/k8s/elastic-gpu"}


def documents():
    """(file, object) of each."""
    for folder in ("deploy/k8s", "examples/k8s"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            for told in yaml.safe_load_all(path.read_text()):
                if told and told.get("kind") != "Kustomization":
                    yield path.relative_to(ROOT), told


def group_of(told):
    return told["apiVersion"].partition("/")[0]


def definitions():
    """(group, kind) -> schema, of our own resources."""
    found = {}
    for _, told in documents():
        if told["kind"] == "CustomResourceDefinition":
            for version in told["spec"]["versions"]:
                key = told["spec"]["group"], told["spec"]["names"]["kind"]
                found[key] = version["schema"]["openAPIV3Schema"]
    return found


def pods():
    """(file, pod's specification) of all that make pods."""
    for path, told in documents():
        if told["kind"] in ("Deployment", "DaemonSet"):
            yield path, told["spec"]["template"]["spec"]


class Schemas(unittest.TestCase):
    def test_every_object_is_one_in_every_version(self):
        count = 0
        first = {}  # of a file, whose pods may use what its other objects are
        for path, told in documents():
            first[path] = max(first.get(path, 0), FIRST.get(told["apiVersion"], 0))
        for path, told in documents():
            if group_of(told) in OURS:
                continue
            for version in VERSIONS:
                minor = int(version.split(".")[1])
                if not first[path] <= minor <= LAST.get(told["apiVersion"], 99):
                    continue
                with self.subTest(file=str(path), kind=told["kind"], version=version):
                    kubernetes_validate.validate(told, version, strict=True)
                    count += 1
        print(f"{count} validations", flush=True)
        self.assertGreater(count, 100)

    def test_every_version_that_is_tried_refuses_a_wrong_object(self):
        wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containerz": []}}  # fmt: skip
        for version in VERSIONS:
            with (
                self.subTest(version=version),
                self.assertRaises(kubernetes_validate.ValidationError),
            ):
                kubernetes_validate.validate(wrong, version, strict=True)

    def test_examples_of_our_own_kinds_keep_to_their_schemas(self):
        import jsonschema

        known = definitions()
        for path, told in documents():
            if group_of(told) in OURS:
                with self.subTest(file=str(path), kind=told["kind"]):
                    jsonschema.validate(told, known[group_of(told), told["kind"]])
                    properties = known[group_of(told), told["kind"]]["properties"]["spec"]
                    if not properties.get("x-kubernetes-preserve-unknown-fields"):
                        self.assertLessEqual(set(told["spec"]), set(properties["properties"]))

    def test_every_file_is_in_its_overlay(self):
        for folder in sorted((ROOT / "deploy/k8s").iterdir()):
            named = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
            files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
            named = [name for name in named if not name.startswith("../")]
            self.assertEqual(set(named), files, folder.name)

    def test_containers_have_no_more_rights_than_they_need(self):
        for path, spec in pods():
            for container in spec["containers"] + spec.get("initContainers", []):
                with self.subTest(file=str(path), container=container["name"]):
                    context = {**spec.get("securityContext", {}), **container["securityContext"]}
                    self.assertFalse(context["allowPrivilegeEscalation"])
                    self.assertTrue(context["readOnlyRootFilesystem"])
                    self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
                    self.assertEqual(context["seccompProfile"], {"type": "RuntimeDefault"})
                    # Those that write where the kubelet reads: its folders are root's.
                    if path.name not in ("plugin.yaml", "node.yaml"):
                        self.assertTrue(context["runAsNonRoot"])
                        self.assertNotEqual(context["runAsUser"], 0)

    def test_roles_name_what_they_open(self):
        for path, told in documents():
            for rule in told.get("rules", []) if "Role" in told["kind"] else []:
                with self.subTest(file=str(path), role=told["metadata"]["name"], rule=rule):
                    self.assertNotIn("*", rule["apiGroups"] + rule["resources"] + rule["verbs"])
                    if "secrets" in rule["resources"]:
                        self.assertTrue(rule["resourceNames"])

    def test_services_and_policies_select_the_pods_that_there_are(self):
        labels = [
            told["spec"]["template"]["metadata"]["labels"]
            for _, told in documents()
            if told["kind"] in ("Deployment", "DaemonSet")
        ]
        for path, told in documents():
            spec = told.get("spec", {})
            selector = spec.get("selector") or spec.get("podSelector", {})
            selector = selector.get("matchLabels", selector)
            if told["kind"] in ("Service", "NetworkPolicy", "PodDisruptionBudget"):
                with self.subTest(file=str(path), kind=told["kind"]):
                    self.assertTrue(any(selector.items() <= has.items() for has in labels))

    def test_the_guide_names_every_overlay(self):
        guide = (ROOT / "docs/guide/kubernetes.md").read_text()
        for folder in (ROOT / "deploy/k8s").iterdir():
            self.assertTrue(f"deploy/k8s/{folder.name}" in guide, folder.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
