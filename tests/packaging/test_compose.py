"""compose.yaml: services, flags, settings, ports, and what watches them."""

import json
import re
import subprocess
import sys

from holdfast.protocol.durations import duration_ms
from tests.packaging.deployment import (
    DEPLOY,
    check_server,
    check_variables,
    compose,
    documents,
    exposed,
    stop_s,
    worker_stop_s,
)


def test_compose_has_three_nodes_two_workers_and_those_who_watch() -> None:
    services = {*compose()["services"]}
    assert services == {
        *("postgres", "node-1", "node-2", "node-3", "worker-1", "worker-2", "prometheus", "grafana")
    }


def test_the_services_of_compose_have_flags_and_settings_that_there_are() -> None:
    whole = compose()
    nodes = {name: each for name, each in whole["services"].items() if name.startswith("node")}
    for name, node in nodes.items():
        check_variables([*node["environment"]])
        settings = check_server(node["command"], node["environment"])
        assert settings.public_url == f"http://{name}:{settings.port}"
        assert settings.token_file == "/run/secrets/holdfast_token"
        assert node["secrets"] == ["holdfast_token"]
        assert settings.store.startswith("postgresql://")
        assert duration_ms(node["stop_grace_period"]) / 1000 > stop_s(settings)
    for name, worker in whole["services"].items():
        if name.startswith("worker"):
            check_variables([*worker["environment"]])
            assert worker["environment"]["HOLDFAST_URL"] == ",".join(f"http://{node}:8001" for node in nodes)
            assert worker["healthcheck"] == {"disable": True}
            assert duration_ms(worker["stop_grace_period"]) / 1000 > worker_stop_s(worker["command"])


def test_the_ports_of_compose_are_those_of_this_machine_alone_and_differ() -> None:
    published = [port for each in compose()["services"].values() for port in each.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)
    outside = [port.split(":")[1] for port in published]
    assert len({*outside}) == len(outside)
    inside = {
        name: each["ports"][0].split(":")[2]
        for name, each in compose()["services"].items()
        if "ports" in each
    }
    assert inside == {f"node-{n}": "8001" for n in (1, 2, 3)} | {"prometheus": "9090", "grafana": "3000"}


def test_every_file_that_compose_mounts_is_there_and_every_volume_declared() -> None:
    whole = compose()
    for each in whole["services"].values():
        for volume in each.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in whole["volumes"]


def test_no_password_is_written_down() -> None:
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    for name in ("POSTGRES_PASSWORD", "HOLDFAST_TOKEN", "GRAFANA_PASSWORD"):
        assert f"${{{name}:?}}" in text


def test_the_workers_run_an_app_that_declares_what_it_says() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "check", "shop:app"],
        cwd=DEPLOY / "example",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert compose()["services"]["worker-1"]["command"][1] == "shop:app"


def expressions() -> list[str]:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


async def test_every_metric_and_label_of_the_dashboard_exists() -> None:
    known = await exposed()
    assert len(expressions()) > 15
    for expression in expressions():
        names = re.findall(r"holdfast_\w+", expression)
        assert names
        assert {*names} <= known.keys(), expression
        labels = {
            label
            for inner in re.findall(r"\{(.*?)\}", expression)
            for label in re.findall(r"(\w+)[=!]", inner)
        }
        grouped = {
            name.strip() for inner in re.findall(r"by \((.*?)\)", expression) for name in inner.split(",")
        }
        for name in names:
            assert labels | grouped <= known[name] | {"instance"}, expression


async def test_every_metric_that_a_node_shows_has_a_place_on_the_dashboard() -> None:
    shown = " ".join(expressions())
    left_out = {"holdfast_leases", "holdfast_group_size", "holdfast_streams_opened_total"}  # shown otherwise
    bare = {re.sub("_(bucket|sum|count)$", "", name) for name in await exposed()} - left_out
    assert [name for name in sorted(bare) if name not in shown] == []


def test_the_dashboard_is_whole_and_where_grafana_looks_for_it() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    [source] = documents(DEPLOY / "compose" / "grafana-datasource.yaml")[0]["datasources"]
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"]}
    [provider] = documents(DEPLOY / "compose" / "grafana-dashboards.yaml")[0]["providers"]
    mounted = [volume.split(":")[1] for volume in compose()["services"]["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/holdfast.json" in mounted


def test_prometheus_asks_every_node_and_shows_a_token() -> None:
    [job] = documents(DEPLOY / "compose" / "prometheus.yaml")[0]["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"node-{number}:8001" for number in (1, 2, 3)]
    assert job.get("metrics_path", "/metrics") == "/metrics"
    assert job["authorization"]["credentials_file"] == "/run/secrets/holdfast_token"
    assert compose()["services"]["prometheus"]["secrets"] == ["holdfast_token"]
