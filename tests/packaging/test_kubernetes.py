"""The manifests: settings, probes, the time to stop, rights, what workers are scaled by."""

from typing import Any

from tests.packaging.deployment import (
    DEPLOY,
    check_server,
    check_variables,
    documents,
    exposed,
    kubernetes_objects,
    worker_stop_s,
)


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    [only] = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_the_pods_have_flags_settings_and_secrets_that_there_are() -> None:
    secret = kubernetes_objects("Secret")["holdfast"]
    for deployment in kubernetes_objects("Deployment").values():
        env = {each["name"]: each for each in container(deployment)["env"]}
        check_variables([*env])
        for each in env.values():
            if "valueFrom" in each:
                wanted = each["valueFrom"]["secretKeyRef"]
                assert wanted["name"] == secret["metadata"]["name"]
                assert wanted["key"] in secret["stringData"]
    node = container(kubernetes_objects("Deployment")["holdfast-node"])
    env = {each["name"]: each.get("value", "postgresql://db/x") for each in node["env"]}
    settings = check_server(node["args"], env)
    service = kubernetes_objects("Service")["holdfast"]["spec"]
    assert settings.public_url == f"http://holdfast:{service['ports'][0]['port']}"
    assert node["ports"] == [{"name": service["ports"][0]["targetPort"], "containerPort": settings.port}]
    [url] = [
        each["value"]
        for each in container(kubernetes_objects("Deployment")["holdfast-worker"])["env"]
        if each["name"] == "HOLDFAST_URL"
    ]
    assert url == settings.public_url


def test_a_node_is_asked_where_it_answers_and_has_the_time_to_stop() -> None:
    deployment = kubernetes_objects("Deployment")["holdfast-node"]
    node = container(deployment)
    assert node["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert node["livenessProbe"]["httpGet"]["path"] == node["startupProbe"]["httpGet"]["path"] == "/health"
    assert {node[f"{kind}Probe"]["httpGet"]["port"] for kind in ("readiness", "liveness", "startup")} == {
        "http"
    }
    command, pause_s = node["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    [stop_timeout_s] = [each["value"] for each in node["env"] if each["name"] == "HOLDFAST_STOP_TIMEOUT_S"]
    grace_s = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s > int(pause_s) + 2 * float(stop_timeout_s)


def test_a_worker_has_the_time_to_drain() -> None:
    deployment = kubernetes_objects("Deployment")["holdfast-worker"]
    grace_s = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_s > worker_stop_s(container(deployment)["args"])


def test_no_pod_runs_with_rights() -> None:
    for deployment in kubernetes_objects("Deployment").values():
        assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
        inner = container(deployment)["securityContext"]
        assert inner["allowPrivilegeEscalation"] is False
        assert inner["readOnlyRootFilesystem"] is True
        assert inner["capabilities"] == {"drop": ["ALL"]}


def test_selectors_choose_the_pods_that_they_are_meant_for() -> None:
    labels = {
        name: each["spec"]["template"]["metadata"]["labels"]
        for name, each in kubernetes_objects("Deployment").items()
    }
    for name, each in kubernetes_objects("Deployment").items():
        assert each["spec"]["selector"]["matchLabels"] == labels[name]
    assert kubernetes_objects("Service")["holdfast"]["spec"]["selector"] == labels["holdfast-node"]
    budget = kubernetes_objects("PodDisruptionBudget")["holdfast-node"]["spec"]
    assert budget["selector"]["matchLabels"] == labels["holdfast-node"]


async def test_workers_are_scaled_by_a_metric_that_nodes_show() -> None:
    scaler = kubernetes_objects("HorizontalPodAutoscaler")["holdfast-worker"]["spec"]
    assert scaler["scaleTargetRef"]["name"] in kubernetes_objects("Deployment")
    [metric] = scaler["metrics"]
    known = await exposed()
    name, labels = (
        metric["external"]["metric"]["name"],
        metric["external"]["metric"]["selector"]["matchLabels"],
    )
    assert {*labels} <= known[name]
    [rule] = documents(DEPLOY / "kubernetes" / "prometheus-adapter.yaml")[0]["rules"]["external"]
    assert rule["name"]["as"] == name
    assert name in rule["seriesQuery"]
    assert f"{name}{{<<.LabelMatchers>>}}" in rule["metricsQuery"]


def test_kustomize_is_told_of_every_manifest_but_the_secret() -> None:
    [listed] = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    manifests = {
        path.name
        for path in (DEPLOY / "kubernetes").glob("*.yaml")
        if all("metadata" in each for each in documents(path))
    }
    assert {*listed["resources"]} == manifests - {"secret.example.yaml"}
