"""What the project is shipped with: pinned requirements, image, compose file, the rights it asks for."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME: list[str] = PYPROJECT["project"]["dependencies"]
BUILD: list[str] = PYPROJECT["dependency-groups"]["build"]
DEV: list[str] = PYPROJECT["dependency-groups"]["dev"]

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
RBAC = list(yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text()))


def pinned(name: str) -> dict[str, tuple[str, list[str]]]:
    """Package -> (version, hashes) of a file in requirements/; fails on a line that pins nothing."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    found: dict[str, tuple[str, list[str]]] = {}
    for line in text.splitlines():
        requirement, *hashes = re.split(r"\s+--hash=", line.strip())
        parsed = Requirement(requirement)
        (version,) = parsed.specifier
        assert version.operator == "==", line
        found[canonicalize_name(parsed.name)] = (version.version, hashes)
    return found


def of_kind(kind: str) -> dict[str, Any]:
    """The one object of this kind in deploy/rbac.yaml."""
    (found,) = (document for document in RBAC if document["kind"] == kind)
    assert isinstance(found, dict)
    return found


# Requirements. Whether the resolver would choose the same is asked by .ci/run: that takes a registry.


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("build", BUILD), ("runtime", RUNTIME), ("dev", [*RUNTIME, *DEV])],
    ids=lambda value: str(value)[:8],
)
def test_every_dependency_is_pinned_to_a_version_that_is_asked_for(name: str, wanted: list[str]) -> None:
    versions = pinned(name)

    for line in wanted:
        requirement = Requirement(line)
        version, _ = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{line}, but pinned to {version}: run `make lock`"


@pytest.mark.parametrize("name", ["build", "runtime", "dev"])
def test_every_pinned_package_has_hashes(name: str) -> None:
    for package, (_, hashes) in pinned(name).items():
        assert hashes, package
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), package


def test_the_tools_run_beside_the_versions_that_are_deployed() -> None:
    runtime, dev = pinned("runtime"), pinned("dev")

    assert {package: dev.get(package) for package in runtime} == runtime


def test_what_builds_the_package_is_pinned_too() -> None:
    assert PYPROJECT["build-system"]["requires"] == BUILD


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").iterdir()), ids=lambda path: path.name)
def test_requirements_hold_no_address(path: Path) -> None:
    assert not re.search(r"://|--(index|extra-index|find-links|trusted)|\s@\s", path.read_text())


# Rights in the cluster.


def test_the_role_reads_exactly_what_is_collected() -> None:
    granted = {
        (group, resource, verb)
        for rule in of_kind("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    listed = {
        "": {
            "events", "namespaces", "nodes", "pods", "services",
            "limitranges", "persistentvolumeclaims", "persistentvolumes", "resourcequotas",
        },
        "events.k8s.io": {"events"},
        "apps": {"daemonsets", "deployments", "replicasets", "statefulsets"},
        "batch": {"cronjobs", "jobs"},
        "discovery.k8s.io": {"endpointslices"},
        "networking.k8s.io": {"networkpolicies"},
        "node.k8s.io": {"runtimeclasses"},
        "policy": {"poddisruptionbudgets"},
        "scheduling.k8s.io": {"podgroups", "priorityclasses", "workloads"},
        "storage.k8s.io": {"storageclasses"},
        "resource.k8s.io": {"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"},
        "batch.volcano.sh": {"jobs"},
        "jobset.x-k8s.io": {"jobsets"},
        "kubeflow.org": {"mpijobs", "pytorchjobs"},
        "kueue.x-k8s.io": {"clusterqueues", "localqueues", "workloads"},
        "leaderworkerset.x-k8s.io": {"leaderworkersets"},
        "nvidia.com": {"clusterpolicies", "nvidiadrivers"},
        "ray.io": {"rayclusters", "rayjobs", "rayservices"},
        "scheduling.volcano.sh": {"podgroups", "queues"},
        "scheduling.x-k8s.io": {"podgroups"},
        "trainer.kubeflow.org": {"trainjobs"},
    }  # fmt: skip
    expected = {
        (group, kind, verb) for group, kinds in listed.items() for kind in kinds for verb in ("get", "list")
    }

    assert granted == expected | {("", "pods/log", "get")}


def test_the_role_has_nothing_but_rules_on_resources() -> None:
    for rule in of_kind("ClusterRole")["rules"]:
        assert set(rule) == {"apiGroups", "resources", "verbs"}


def test_the_role_is_bound_to_the_account_and_to_nobody_else() -> None:
    account, role, binding = of_kind("ServiceAccount"), of_kind("ClusterRole"), of_kind("ClusterRoleBinding")

    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": role["metadata"]["name"],
    }
    assert binding["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": account["metadata"]["name"],
            "namespace": account["metadata"]["namespace"],
        }
    ]
    assert {document["kind"] for document in RBAC} == {
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
    }


# The compose file.


def test_compose_has_the_five_services() -> None:
    assert set(SERVICES) == {"web", "worker", "beat", "postgres", "redis"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_hardened(name: str) -> None:
    service = SERVICES[name]
    user, group = service["user"].split(":")

    assert int(user) > 0
    assert int(group) > 0
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert not service.get("privileged", False)
    assert service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_says_whether_it_is_well(name: str) -> None:
    check = SERVICES[name]["healthcheck"]

    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert {"interval", "timeout"} <= set(check)


def test_the_dashboard_is_asked_at_healthz() -> None:
    assert "/healthz" in SERVICES["web"]["healthcheck"]["test"][-1]
    assert re.search(r"^HEALTHCHECK .*\\\n.*/healthz", DOCKERFILE, flags=re.MULTILINE)


def test_only_the_web_server_is_published_and_only_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}

    assert published == {"web": ["127.0.0.1:8000:8000"]}
    assert all("network_mode" not in service for service in SERVICES.values())


def test_the_stores_are_on_a_network_without_a_way_out() -> None:
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert SERVICES["postgres"]["networks"] == SERVICES["redis"]["networks"] == ["inside"]


def test_only_the_worker_sees_the_credentials_of_clusters() -> None:
    holders = {name for name, service in SERVICES.items() if "kubeconfig" in str(service).lower()}

    assert holders == {"worker"}


def test_files_from_the_host_are_mounted_read_only() -> None:
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            assert isinstance(mount, str) or (mount["type"], mount["read_only"]) == ("bind", True)
            assert not str(mount).startswith((".", "/"))


@pytest.mark.parametrize("name", SERVICES)
def test_no_secret_has_a_default(name: str) -> None:
    for variable, value in SERVICES[name]["environment"].items():
        if re.search("SECRET|PASSWORD|DATABASE_URL|BROKER_URL", variable):
            assert re.search(r"\$\{[A-Z_]+:\?[^}]+\}", value), variable
            assert not re.search(r":-|password@", value), variable


def test_images_of_others_have_a_version() -> None:
    images = [service["image"] for service in SERVICES.values() if "build" not in service]

    assert images
    assert all(re.search(r":\d", image) for image in images)


# The image.


def test_the_image_runs_as_nobody_in_particular() -> None:
    last_stage = DOCKERFILE.split("\nFROM ")[-1]
    user = re.search(r"^USER (\d+):\d+$", last_stage, flags=re.MULTILINE)

    assert user is not None
    assert int(user[1]) > 0
    assert SERVICES["web"]["user"].startswith(f"{user[1]}:")


def test_the_image_installs_hashed_requirements_and_nothing_else() -> None:
    installs = re.findall(r"pip install (.*)$", DOCKERFILE, flags=re.MULTILINE)

    assert installs == [
        "--require-hashes -r requirements/build.txt -r requirements/runtime.txt",
        "--no-deps --no-build-isolation --editable .",
    ]


def test_the_image_is_given_no_secret() -> None:
    assert not re.search(r"^(ARG|ENV).*(SECRET|PASSWORD|TOKEN)", DOCKERFILE, flags=re.MULTILINE)


def test_neither_history_nor_environment_get_into_the_image() -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()

    assert {"*", ".git", ".venv", ".env"} <= set(patterns)
    let_in = [pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")]
    assert not {".git", ".venv", ".env", "tests"} & set(let_in)


def test_every_variable_that_is_set_is_one_that_the_settings_read() -> None:
    names = {
        name
        for text in (DOCKERFILE, *(str(service["environment"]) for service in SERVICES.values()))
        for name in re.findall(r"GPUHEALTH_[A-Z_]+", text)
    }
    settings = "".join(path.read_text() for path in (ROOT / "gpuhealth").glob("*.py"))

    assert names
    assert {name for name in names if name not in settings} == set()


# The gate.


def test_hooks_run_the_same_commands_as_the_gate() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    gate = (ROOT / ".ci" / "run").read_text()

    checks = set(re.findall(r"(make --no-print-directory check-\w+)", gate))
    assert {hook["entry"] for hook in hooks} == checks
    assert checks


def test_every_make_target_is_explained_to_contributors() -> None:
    targets = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    contributing = (ROOT / "CONTRIBUTING.md").read_text()

    assert {"install", "up", "test", "lint", "bench", "lock"} <= set(targets)
    assert [target for target in targets if target != "help" and f"`make {target}`" not in contributing] == []
