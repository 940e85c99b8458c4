"""HTTP from outside: routes of an Ingress, and of the Gateway API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.harness import Helm, Object, RefusedError, one
from tests.charts.test_objects import CASES, arguments, merged

ROUTES = CASES["routes"]
GATEWAY_API = ("gateway.networking.k8s.io/v1",)
PARENTS = [{"name": "public", "namespace": "gateways", "sectionName": "https"}]
THROUGH_A_GATEWAY = {
    **{key: value for key, value in ROUTES.items() if key != "ingress"},
    "httpRoute": {"parents": PARENTS},
}


def ports(objects: list[Object]) -> set[tuple[str, int]]:
    """Name and port of each port of a Service."""
    services = (o for o in objects if o["kind"] == "Service")
    return {(s["metadata"]["name"], p["port"]) for s in services for p in s["spec"]["ports"]}


def test_an_ingress_leads_to_the_services_of_the_routes(helm: Helm) -> None:
    objects = helm.objects("market-spread", ROUTES)
    ingress = one(objects, "Ingress")
    found = {
        (rule["host"], path["path"]): (
            path["backend"]["service"]["name"],
            path["backend"]["service"]["port"]["number"],
        )
        for rule in ingress["spec"]["rules"]
        for path in rule["http"]["paths"]
    }
    assert found == {
        ("shop.example", "/prices"): ("market-spread-events", 7020),
        ("shop.example", "/orders"): ("market-spread-sources", 7010),
        ("dashboard.example", "/"): ("market-spread-dashboard", 4040),
    }
    assert set(found.values()) <= ports(objects)
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert ingress["metadata"]["annotations"] == ROUTES["ingress"]["annotations"]
    (tls,) = ingress["spec"]["tls"]
    assert tls == {"secretName": "shop-tls", "hosts": ["dashboard.example", "shop.example"]}
    assert (
        "tls"
        not in one(
            helm.objects("market-spread", merged(ROUTES, {"ingress": {"tlsSecretName": ""}})),
            "Ingress",
        )["spec"]
    )


def test_the_gateway_api_has_a_route_for_each_host(helm: Helm) -> None:
    objects = helm.objects("market-spread", THROUGH_A_GATEWAY, api_versions=GATEWAY_API)
    assert not [o for o in objects if o["kind"] == "Ingress"]
    shop = one(objects, "HTTPRoute", "-shop.example")
    assert shop["spec"] == {
        "parentRefs": PARENTS,
        "hostnames": ["shop.example"],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": path}}],
                "backendRefs": [{"name": name, "port": port}],
            }
            for path, name, port in (
                ("/prices", "market-spread-events", 7020),
                ("/orders", "market-spread-sources", 7010),
            )
        ],
    }
    dashboard = one(objects, "HTTPRoute", "-dashboard.example")
    assert dashboard["spec"]["hostnames"] == ["dashboard.example"]


def test_the_dashboard_answers_to_the_hosts_that_lead_to_it(helm: Helm) -> None:
    names = [
        argument
        for argument in arguments(helm.objects("market-spread", ROUTES), "-driver")
        if argument.startswith("--ui-name=")
    ]
    assert names[-1] == "--ui-name=dashboard.example"
    assert "--ui-name=shop.example" not in names


def test_routes_are_there_only_when_they_are_wanted(helm: Helm) -> None:
    kinds = {o["kind"] for o in helm.objects("market-spread")}
    assert not {"Ingress", "HTTPRoute"} & kinds


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"ingress": {"enabled": False}}, "ingress.className is set, and ingress.enabled is false"),
    (
        {"ingress": {"enabled": False, "className": "", "annotations": None, "tlsSecretName": ""}},
        "routes is set, and nothing serves them: set ingress.enabled=true, or name Gateways in",
    ),
    ({"routes": []}, "ingress.enabled is true, and routes is empty: name a host and what it leads"),
    (
        {"routes": [{"host": "a.example", "to": "trades"}]},
        'routes[0].to is "trades": expected the name of a source or of a port of events (dashboard,'
        " market-data, orders, prices)",
    ),
    (
        {"dashboard": {"enabled": False}},
        "routes[2].to is dashboard, and dashboard.enabled is false: set dashboard.enabled=true.",
    ),
    (
        {"routes": [{"host": "a.example", "to": "dashboard", "path": "/wallaroo"}]},
        'routes[0].path is "/wallaroo", and the dashboard is served at "/" only',
    ),
    (
        {"routes": [{"host": "a.example", "to": "orders"}, {"host": "a.example", "to": "prices"}]},
        "routes[0] and routes[1] have the same host and path, a.example/: give each its own.",
    ),
    (
        {"routes": [{"host": "https://a.example", "to": "orders"}]},
        'routes[0].host is "https://a.example": expected a domain name in lower case',
    ),
    (
        {"routes": [{"host": "a.example", "to": "orders", "path": "orders"}]},
        'routes[0].path is "orders": expected the beginning of a path, such as /orders.',
    ),
    (
        {"httpRoute": {"parents": PARENTS}},
        "httpRoute.parents is set, and the cluster has no gateway.networking.k8s.io/v1",
    ),
]


@pytest.mark.parametrize(("values", "sentence"), REFUSED, ids=lambda v: str(v)[:40])
def test_routes_that_lead_nowhere_are_refused(
    helm: Helm, values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        helm.objects("market-spread", merged(ROUTES, values))
    assert sentence in str(refused.value)
