"""The manifests: valid for several Kubernetes versions, restricted, and put together right."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import a2a_eval_proxy
import pytest
import yaml
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.settings.parts import DEFAULT_OTLP
from a2a_eval_proxy.settings.settings import Settings
from deployment.containers import commands
from deployment.rendering import (
    CHART,
    DEPLOY,
    Manifest,
    RenderError,
    chart,
    complaints,
    helm,
    kubectl,
    kustomized,
    only,
    overlay,
)
from tool_call_evaluators.suite import parse_suite

pytestmark = [pytest.mark.installs, pytest.mark.about("deploy", "tests/deployment")]

NATIVE, CLASSIC, GATEWAY, SHARED = "sidecar-native", "sidecar-classic", "gateway", "shared-store"
MANY = "many-agents"
VERSIONS = {
    NATIVE: ("1.29", "1.33", "1.37"),
    CLASSIC: ("1.25", "1.29", "1.37"),
    GATEWAY: ("1.25", "1.31", "1.37"),
    SHARED: ("1.25", "1.31", "1.37"),
    MANY: ("1.25", "1.31", "1.37"),
}
"""Three for each overlay, from the oldest in which it works."""

SECCOMP = {"type": "RuntimeDefault"}
HARDENED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsUser": 65532,
}
HARMLESS_VOLUMES = {"name", "configMap", "emptyDir", "persistentVolumeClaim", "secret"}

AGENT = ("--set", "agent.image=shop:1.2")
TRAVEL = ("--set", "agents.flights.upstream=http://flights.travel.svc:9999")
RELEASES: dict[str, tuple[str, ...]] = {
    "helm-native": AGENT,
    "helm-classic": (*AGENT, "--set", "mode=classic-sidecar,replicas=3,store.type=postgresql"),
    "helm-volume": (*AGENT, "--set", "mode=classic-sidecar,store.type=persistentVolumeClaim,podMonitor.enabled=true"),
    "helm-gateway": ("--set", "mode=gateway,upstream=http://agent:9999,podMonitor.enabled=true,replicas=2"),
    "helm-gateway-bare": (
        "--set",
        "mode=gateway,upstream=https://a.example/x,otlp.enabled=false,networkPolicy.enabled=false",
    ),
    "helm-workers": (
        "--set",
        "mode=gateway,upstream=http://agent:9999,replicas=3,store.type=postgresql,workers.replicas=2",
    ),
    "helm-grpc": (*AGENT, "--set", "grpc.enabled=true,push.enabled=true"),
    "helm-gateway-grpc": ("--set", "mode=gateway,upstream=grpc://agent:50051,grpc.enabled=true,push.enabled=true"),
    "helm-agents": ("--values", str(Path(__file__).with_name("agents-of-shop.yaml")), *TRAVEL, "--set", "mode=gateway"),
    "helm-all": (
        "--set",
        "mode=gateway,upstream=http://agent:9999,store.type=postgresql,workers.replicas=2,serviceAccount.create=true,"
        "grpc.enabled=true,podMonitor.enabled=true,prometheusRule.enabled=true,podDisruptionBudget.enabled=true",
        "--set-json",
        'grpcRoute={"enabled":true,"parentRefs":[{"name":"public","namespace":"gateways","sectionName":"grpc"}],"hostnames":["*.a2a.example.com"]}',
        "--set-json",
        'httpRoute={"enabled":true,"parentRefs":[{"name":"public","namespace":"gateways"}],"hostnames":["a2a.example.com"]}',
        "--set-json",
        'networkPolicy.egress=[{"to":[{"podSelector":{}}],"ports":[{"port":5432,"protocol":"TCP"}]}]',
    ),
    "helm-tls": (
        *AGENT,
        "--set",
        "settings.tls_cert=/run/secrets/a2a-eval-proxy/tls.crt,settings.tls_key=/run/secrets/a2a-eval-proxy/tls.key",
    ),
}


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """All of them, those that start first, too."""
    return [*pod.get("initContainers", []), *pod["containers"]]


def assert_restricted(pod: dict[str, Any]) -> None:
    """The restricted Pod Security Standard, and some rules of the house."""
    assert pod["securityContext"].items() >= {"runAsNonRoot": True, "seccompProfile": SECCOMP}.items()
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert {key for volume in pod["volumes"] for key in volume} <= HARMLESS_VOLUMES
    assert pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] >= 30
    for container in containers(pod):
        context = dict(container["securityContext"])
        assert (context.pop("runAsNonRoot", True), context.pop("seccompProfile", SECCOMP)) == (True, SECCOMP)
        assert context == HARDENED
        assert container["image"] in (f"a2a-eval-proxy:{a2a_eval_proxy.__version__}", "shop:1.2")
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
        assert {"readinessProbe", "livenessProbe"} <= container.keys()
        assert all(port["name"] and "hostPort" not in port for port in container.get("ports", []))


def release(name: str) -> list[Manifest]:
    return chart(*RELEASES[name])


def deployments(manifests: list[Manifest]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == "Deployment"]


def with_proxy(manifests: list[Manifest]) -> Manifest:
    """The one Deployment that is not of workers."""
    (found,) = (one for one in deployments(manifests) if not one["metadata"]["name"].endswith("-worker"))
    return found


def pod_of(manifests: list[Manifest]) -> dict[str, Any]:
    spec: dict[str, Any] = with_proxy(manifests)["spec"]["template"]["spec"]
    return spec


def worker_of(manifests: list[Manifest]) -> Manifest:
    """The Pod template of the workers."""
    (found,) = (one for one in deployments(manifests) if one["metadata"]["name"].endswith("-worker"))
    template: Manifest = found["spec"]["template"]
    return template


def settings_in(manifests: list[Manifest]) -> dict[str, str]:
    """The files of the ConfigMap with the settings."""
    (found,) = (one["data"] for one in manifests if one["kind"] == "ConfigMap" and "config.yaml" in one["data"])
    files: dict[str, str] = found
    return files


def proxy_in(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = (one for one in containers(pod) if one["name"] == "a2a-eval-proxy")
    return found


# ── every rendering ─────────────────────────────────────────────────────────────────────────────────────────

ALL = [*VERSIONS, *RELEASES]


def rendered(name: str) -> list[Manifest]:
    return overlay(name) if name in VERSIONS else release(name)


@pytest.mark.parametrize("name", ALL)
def test_the_schemas_of_three_versions_have_nothing_against_it(name: str) -> None:
    oldest = dict.fromkeys(("helm-native", "helm-grpc", "helm-tls"), VERSIONS[NATIVE])
    assert complaints(rendered(name), VERSIONS.get(name) or oldest.get(name, VERSIONS[CLASSIC])) == []


@pytest.mark.parametrize("name", ALL)
def test_every_pod_is_restricted(name: str) -> None:
    for one in deployments(rendered(name)):
        assert_restricted(one["spec"]["template"]["spec"])


@pytest.mark.parametrize("name", ALL)
def test_the_settings_are_those_of_serve(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_TOKEN", "from the Secret")
    manifests = rendered(name)
    proxy = proxy_in(pod_of(manifests))
    variables = {one["name"]: one.get("value", "postgresql://db/turns") for one in proxy["env"]}
    variables["A2A_EVAL_PROXY_ADMIN_TOKEN"] = "from-the-Secret-as-all-of-them"
    files = settings_in(manifests)
    assert variables.pop("A2A_EVAL_PROXY_CONFIG") == "/etc/a2a-eval-proxy/config.yaml"
    flags = yaml.safe_load(files["config.yaml"])
    settings = load(Settings, flags, variables)
    assert settings.suite == "/etc/a2a-eval-proxy/suite.yaml"
    assert parse_suite(files["suite.yaml"]).evaluators
    grace = pod_of(manifests)["terminationGracePeriodSeconds"]
    assert grace >= settings.timeouts.drain + 2 * settings.timeouts.shutdown + 15
    ports = {port["name"]: port["containerPort"] for port in proxy["ports"]}
    assert settings.listen == f"0.0.0.0:{ports['a2a']}"
    assert settings.admin == f"0.0.0.0:{ports['a2a-admin']}"
    asked = [proxy[probe]["httpGet"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert [one["path"] for one in asked] == ["/readyz", "/readyz", "/healthz"]
    assert {one["port"] for one in asked} == {"a2a-admin"}
    (http, *_) = only(manifests, "Service")["spec"]["ports"]
    assert http["targetPort"] == ports["a2a"]
    if len(containers(pod_of(manifests))) > 1 and settings.otlp:
        assert settings.otlp.startswith("127.0.0.1:")
    assert settings.evaluate == (len(deployments(manifests)) == 1)


@pytest.mark.parametrize("name", [name for name in ALL if name != "helm-gateway-bare"])
def test_the_admin_port_is_for_monitoring_only(name: str) -> None:
    pods = with_proxy(rendered(name))["spec"]["template"]["metadata"]["labels"]
    policies = [one["spec"] for one in rendered(name) if one["kind"] == "NetworkPolicy"]
    rules = [rule for policy in policies if _selects(policy["podSelector"], pods) for rule in policy["ingress"]]
    open_to_all = {port["port"] for rule in rules if "from" not in rule for port in rule["ports"]}
    assert open_to_all == ({18080, 18082} if name.endswith(("grpc", "all")) else {18080})
    restricted = {port["port"] for rule in rules if "from" in rule for port in rule["ports"]}
    assert {18081} <= restricted <= {18081, 4318, 18083}


@pytest.mark.parametrize("name", [SHARED, "helm-workers"])
def test_workers_are_reached_by_monitoring_only(name: str) -> None:
    labels = worker_of(rendered(name))["metadata"]["labels"]
    policies = [one["spec"] for one in rendered(name) if one["kind"] == "NetworkPolicy"]
    (policy,) = (one for one in policies if _selects(one["podSelector"], labels))
    assert policy["policyTypes"][0] == "Ingress"
    (rule,) = policy["ingress"]
    assert rule["ports"] == [{"port": 18081, "protocol": "TCP"}]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert not _selects({"matchLabels": only(rendered(name), "Service")["spec"]["selector"]}, labels)


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels", {}).items()
    among = selector.get("matchExpressions", [])
    return all(labels.get(key) == value for key, value in wanted) and all(
        labels.get(one["key"]) in one["values"] for one in among
    )


# ── kustomize ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_agent_is_reached_through_the_proxy_only() -> None:
    for name in (NATIVE, CLASSIC):
        (agent,) = (one for one in pod_of(overlay(name))["containers"] if one["name"] == "agent")
        assert agent["command"][-4:-2] == ["--host", "127.0.0.1"]
        assert "ports" not in agent
        assert agent["readinessProbe"]["httpGet"]["port"] == 18080


THEIRS = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
  labels: {team: sales}
spec:
  selector:
    matchLabels: {app: shop}
  template:
    metadata:
      labels: {app: shop}
    spec:
      automountServiceAccountToken: false
      initContainers:
        - {name: prepare, image: "shop:1.2", command: [prepare]}
      containers:
        - {name: web, image: "shop:1.2", env: [{name: KEY, value: a}]}
      volumes:
        - {name: cache, emptyDir: {}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: database
spec:
  selector:
    matchLabels: {app: database}
  template:
    metadata:
      labels: {app: database}
    spec:
      containers:
        - {name: database, image: "postgres:17"}
---
apiVersion: v1
kind: Service
metadata:
  name: shop
spec:
  selector: {app: shop}
  ports:
    - {name: http, port: 80, targetPort: 8080}
"""


def snippets(language: str) -> list[tuple[str, str]]:
    """The code blocks of deploy/README.md that begin with a comment that names a file: name and text."""
    text = (DEPLOY / "README.md").read_text("utf-8")
    return re.findall(rf"```{language}\n# ([^\s,]+)[^\n]*\n(.*?)```", text, re.DOTALL)


def test_the_readme_shows_how_to_inject_it_into_what_others_wrote(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY / "kustomize", tmp_path / "a2a-eval-proxy/deploy/kustomize")
    files = {"shop/shop.yaml": THEIRS, "evaluated/suite.yaml": "suite: shop\nevaluators: [tool_error]\n"}
    files["shop/kustomization.yaml"] = "resources: [shop.yaml]\n"
    for name, text in [*files.items(), *snippets("yaml")]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    manifests = kustomized(tmp_path / "evaluated")

    theirs = only(manifests, "Deployment", "shop")
    pod = theirs["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["initContainers"]] == ["a2a-eval-proxy", "prepare"]
    assert proxy_in(pod)["image"] == f"registry.example.com/a2a-eval-proxy:{a2a_eval_proxy.__version__}"
    assert pod["containers"] == [{"name": "web", "image": "shop:1.2", "env": [{"name": "KEY", "value": "a"}]}]
    assert {one["name"] for one in pod["volumes"]} >= {"cache", "a2a-eval-proxy-data"}
    assert theirs["spec"]["selector"] == {"matchLabels": {"app": "shop"}}
    variables = {one["name"]: one["value"] for one in proxy_in(pod)["env"] if one["name"].endswith("_LISTEN")}
    config = load(Settings, yaml.safe_load(only(manifests, "ConfigMap")["data"]["config.yaml"]), variables)
    assert config.suite == "/etc/a2a-eval-proxy/suite.yaml", "without it the suite would lie there unread"
    settings = only(manifests, "ConfigMap")["metadata"]["name"]
    assert {"configMap": {"name": settings}, "name": "a2a-eval-proxy-settings"} in pod["volumes"]
    assert only(manifests, "Service", "shop")["spec"]["ports"][0]["targetPort"] == 18080
    assert "initContainers" not in only(manifests, "Deployment", "database")["spec"]["template"]["spec"]
    assert complaints(manifests, VERSIONS[NATIVE]) == []


def test_the_readme_shows_how_to_have_two_gateways_side_by_side(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY / "kustomize", tmp_path / "a2a-eval-proxy/deploy/kustomize")
    (lines,) = (text for name, text in snippets("yaml") if name == "blue/kustomization.yaml")
    gateways = []
    for name in ("blue", "green"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kustomization.yaml").write_text(lines.replace("blue", name), "utf-8")
        gateways.append(kustomized(tmp_path / name))
    for mine, other in (gateways, reversed(gateways)):
        selector = {"matchLabels": only(mine, "Service")["spec"]["selector"]}
        assert _selects(selector, with_proxy(mine)["spec"]["template"]["metadata"]["labels"])
        assert not _selects(selector, with_proxy(other)["spec"]["template"]["metadata"]["labels"])
        assert complaints(mine, VERSIONS[GATEWAY]) == []
    first, second = ({(one["kind"], one["metadata"]["name"]) for one in manifests} for manifests in gateways)
    assert not first & second


RENDERINGS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("renderings.yaml").read_text("utf-8"))


def with_components(rendering: dict[str, Any], folder: Path) -> list[Manifest]:
    """An overlay, or the manifests of others, after those components."""
    shutil.copytree(DEPLOY / "kustomize", folder / "kustomize")
    (folder / "mine").mkdir()
    (folder / "mine/theirs.yaml").write_text(yaml.safe_dump_all(rendering.get("theirs", [])))
    resource = f"../kustomize/overlays/{rendering['overlay']}" if "overlay" in rendering else "theirs.yaml"
    components = [f"../kustomize/components/{one}" for one in rendering["components"]]
    (folder / "mine/kustomization.yaml").write_text(f"resources: [{resource}]\ncomponents: {components}\n")
    return kustomized(folder / "mine")


def fits(expected: Any, actual: Any) -> bool:
    """Whether what is expected is there, in the notation of renderings.yaml."""
    if isinstance(expected, dict):
        found = {one["name"]: one for one in actual} if isinstance(actual, list) else actual
        return found is not None and all(fits(value, found.get(key)) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(fits, expected, actual))
    return bool(expected == actual)


@pytest.mark.parametrize("rendering", [pytest.param(one, id=one["it"]) for one in RENDERINGS])
def test_what_is_rendered(rendering: dict[str, Any], tmp_path: Path) -> None:
    if "release" in rendering:
        manifests = chart(*RELEASES[rendering["release"]], *rendering.get("words", []))
    else:
        manifests = with_components(rendering, tmp_path)
    found = {f"{one['kind']} {one['metadata']['name']}": one for one in manifests}
    for name, expected in rendering.get("has", {}).items():
        assert fits(expected, found[name]), yaml.safe_dump(found[name])
    if "config" in rendering:
        assert fits(rendering["config"], yaml.safe_load(settings_in(manifests)["config.yaml"]))
    if "overlay" in rendering:
        assert_restricted(pod_of(manifests))
    assert complaints(manifests, VERSIONS.get(rendering.get("overlay", ""), VERSIONS[NATIVE])) == []


def test_the_commands_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that need a cluster are rendered."""
    monkeypatch.chdir(tmp_path)
    Path("deploy").symlink_to(DEPLOY)
    files = {"travel.yaml": "agents: {flights: {upstream: http://flights:9999}}\n"}
    files |= dict.fromkeys(("suite.yaml", "orders.yaml"), "suite: shop\nevaluators: [tool_error]\n")
    files |= dict.fromkeys(("tls.crt", "tls.key", "token"), "secret")
    for name, text in [*files.items(), *snippets("yaml")]:
        if "/" not in name:
            Path(name).write_text(text, "utf-8")
    made = [kubectl(*words, "--dry-run=client", "--output=name") for words in commands("kubectl")]
    assert made == ["secret/a2a-eval-proxy\n", "secret/a2a-eval-proxy-files\n"]
    for _, *words in commands("helm"):
        parsed = [
            one for one in yaml.safe_load_all(helm("template", *(word for word in words if word != "--install"))) if one
        ]
        assert complaints(parsed, VERSIONS[GATEWAY]) == []
        assert any(parse_suite(text).evaluators for name, text in settings_in(parsed).items() if "suite" in name)


# ── helm ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_helm_and_kustomize_say_the_same_of_the_proxy() -> None:
    for of_chart, of_overlay in (("helm-native", NATIVE), ("helm-gateway", GATEWAY)):
        by_helm, by_kustomize = proxy_in(pod_of(release(of_chart))), proxy_in(pod_of(overlay(of_overlay)))
        assert by_helm.pop("imagePullPolicy") == "IfNotPresent"
        chosen, default = ({one["name"]: one["value"] for one in each.pop("env")} for each in (by_helm, by_kustomize))
        assert chosen.pop("A2A_EVAL_PROXY_STORE") == "/data/turns.db"  # else the image's
        if of_overlay == NATIVE:
            assert chosen.pop("A2A_EVAL_PROXY_OTLP") == DEFAULT_OTLP
        assert (by_helm, chosen) == (by_kustomize, default)


# ── several agents ──────────────────────────────────────────────────────────────────────────────────────────


def agents_in(manifests: list[Manifest]) -> dict[str, Any]:
    """The settings of the agents, by name."""
    agents: dict[str, Any] = yaml.safe_load(settings_in(manifests)["config.yaml"])["agents"]
    return agents


def test_each_team_adds_its_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_TOKEN", "from the Secret")
    expected = {"orders": "http://orders.shop.svc:9999", "refunds": "http://refunds.shop.svc:9999"}
    expected["flights"] = "http://flights.travel.svc:9999"
    for name in (MANY, "helm-agents"):
        config = yaml.safe_load(settings_in(rendered(name))["config.yaml"])
        assert "upstream" not in config
        settings = load(Settings, {"agents": config["agents"]})
        assert {agent: one.settings.upstream for agent, one in settings.each_agent.items()} == expected
        assert settings.each_agent["orders"].hosts == ("orders.example.com",)


def test_a_change_of_an_agent_or_of_its_suite_needs_a_new_pod() -> None:
    suite = "suite: orders\nevaluators: [tool_error]\n"
    with_suite = chart(*RELEASES["helm-agents"], "--set", f"suites.orders={suite}")
    assert agents_in(with_suite)["orders"]["suite"] == "/etc/a2a-eval-proxy/suite-orders.yaml"
    assert parse_suite(settings_in(with_suite)["suite-orders.yaml"]).name == "orders"
    assert "suite" not in agents_in(with_suite)["refunds"]
    before = with_proxy(release("helm-agents"))["spec"]
    changed = chart(*RELEASES["helm-agents"], "--set", "agents.search.upstream=http://search.shop.svc:9999")
    assert "search" in agents_in(changed)
    assert with_proxy(changed)["spec"] != before
    assert with_proxy(with_suite)["spec"] != before


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"admin_token": "x" * 20}, "admin_token"),
        ({"upstream_tls": {"key_password": "x"}}, "upstream_tls.key_password"),
        ({"upstream_header": "Authorization: Bearer abc"}, "upstream_header"),
        ({"upstream_header": ["X-Tenant: a", "x-api-key: abc"]}, "upstream_header"),
        ({"otlp_forward_headers": "x-tenant=a,x-api-key=abc"}, "otlp_forward_headers"),
    ],
)
def test_secrets_in_settings_are_refused(settings: dict[str, Any], key: str) -> None:
    agent = json.dumps({"b": {"upstream": "http://b:1", **settings}})
    for where, arguments in (
        (f"settings.{key}", (*AGENT, "--set-json", f"settings={json.dumps(settings)}")),
        (f"agents.b.{key}", ("--set-json", f"agents={agent}", "--set", "mode=gateway")),
    ):
        with pytest.raises(RenderError, match="ConfigMap") as raised:
            chart(*arguments)
        assert f"{where}: " in str(raised.value)
        assert "abc" not in str(raised.value)


# ── the cluster around it ───────────────────────────────────────────────────────────────────────────────────


def test_the_values_in_the_readme_are_good(tmp_path: Path) -> None:
    (values,) = (text for name, text in snippets("yaml") if name == "values.yaml")
    (tmp_path / "values.yaml").write_text(values, "utf-8")
    manifests = chart("--values", str(tmp_path / "values.yaml"))
    assert complaints(manifests, VERSIONS[GATEWAY]) == []
    settings = load(Settings, yaml.safe_load(only(manifests, "ConfigMap")["data"]["config.yaml"]))
    assert settings.tls_cert
    assert settings.redact
    assert settings.upstream_header
    assert worker_of(manifests)


@pytest.mark.parametrize("name", ["12345", "shop.v1"])
def test_a_release_that_cannot_name_a_service_is_refused(name: str) -> None:
    with pytest.raises(RenderError, match=re.escape(f'a Service cannot be named "{name}"')):
        helm("template", name, str(CHART), *AGENT)
    manifests = helm("template", name, str(CHART), *AGENT, "--set", "fullnameOverride=shop")
    parsed = [manifest for manifest in yaml.safe_load_all(manifests) if manifest]
    assert complaints(parsed, VERSIONS[NATIVE]) == []


@pytest.mark.parametrize("name", ["null"])
def test_names_that_yaml_reads_as_something_else(name: str) -> None:
    secret = ("--set-string", f"secret={name},secretFiles={name},store.urlFrom.secret={name}")
    text = helm("template", name, str(CHART), *RELEASES["helm-workers"], *secret)
    manifests = [manifest for manifest in yaml.safe_load_all(text) if manifest]
    assert complaints(manifests, VERSIONS[GATEWAY]) == []
    assert only(manifests, "Service")["metadata"]["name"] == name
    assert proxy_in(pod_of(manifests))["envFrom"] == [{"secretRef": {"name": name}}]


def test_the_alerts_of_the_chart_are_those_of_the_component() -> None:
    rule = only(
        chart(*AGENT, "--set", "prometheusRule.enabled=true,prometheusRule.labels.team=sales"), "PrometheusRule"
    )
    component = DEPLOY / "kustomize/components/alerts/prometheus-rule.yaml"
    copied = CHART / "files/prometheus-rule.yaml"
    assert copied.read_text("utf-8") == component.read_text("utf-8"), f"copy {component} to {copied}"
    assert rule["spec"] == yaml.safe_load(component.read_text("utf-8"))["spec"]
    assert rule["metadata"]["labels"]["team"] == "sales"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ("mode=sidecar", "agent.image: a sidecar needs an agent"),
        ("mode=gateway", "upstream: the gateway needs the URL of the agent"),
        ("agent.image=a:1,store.type=persistentVolumeClaim,replicas=2", "a volume serves one replica"),
        ("agent.image=a:1,workers.replicas=2", "workers need store.type postgresql"),
        ("agent.image=a:1,settings.tls_client_ca=/ca.pem", "agent.probe: with settings.tls_client_ca"),
        ("mode=gateway,upstream=http://a,service.port=4318", "service.port: 4318 is the port for traces"),
        ("agent.image=a:1,grpc.enabled=true,grpc.port=80", "grpc.port: 80 is another port of the Service"),
        ("agent.image=a:1,settings.listen=1", "listen"),
        ("agent.image=a:1,netwrokPolicy.enabled=false", "netwrokPolicy"),
        (
            "agent.image=a:1,podLabels.app\\.kubernetes\\.io/name=b",
            "podLabels: the Service and the Deployment select Pods by app.kubernetes.io/name",
        ),
        (
            "agent.image=a:1,settings.retain_mb=1800",
            "1800 MB of turns do not fit a volume of store.size 2Gi; at most 17",
        ),
        ("agent.image=a:1,autoscaling.enabled=true,autoscaling.minReplicas=6", "minReplicas is 6, maxReplicas 5"),
        ("mode=gateway,upstream=http://a:1,agents.b.upstream=http://b:1", "agents: and upstream both name agents"),
        ("agent.image=shop:1,agents.b.upstream=http://b:1", "agents: several agents need mode gateway"),
        ("mode=gateway,agents.b.upstream=http://b:1,suites.c=x", "suites.c: agents has no agent of this name"),
        ("mode=gateway,agents.b.hosts=x", "upstream"),
        ("mode=gateway,agents.b_c.upstream=http://b:1", "b_c"),
        ("mode=gateway,upstream=http://a:1,httpRoute.enabled=true", "httpRoute.parentRefs: name the Gateway"),
        ("mode=gateway,upstream=http://a:1,grpcRoute.enabled=true", "grpcRoute.enabled: set grpc.enabled, too"),
    ],
)
def test_helm_refuses(values: str, complaint: str) -> None:
    with pytest.raises(RenderError, match=re.escape(complaint)):
        chart("--set", values)


def test_helm_refuses_a_native_sidecar_where_it_would_never_let_the_agent_start() -> None:
    with pytest.raises(RenderError, match=re.escape("this is v1.28.9; use classic-sidecar")):
        chart(*AGENT, "--kube-version", "v1.28.9")
    assert chart(*AGENT, "--kube-version", "v1.29.0-gke.1")
    assert chart(*RELEASES["helm-classic"], "--kube-version", "v1.28.9")


def test_the_schema_knows_every_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = yaml.safe_load((CHART / "values.schema.json").read_text("utf-8"))
    assert set(values) == set(schema["properties"]) - {"global"}
