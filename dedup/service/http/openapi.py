"""The OpenAPI description of the HTTP port.

The rule kept here: it is made from the types that decode requests and encode answers (json_types.py), so
that it is true.
"""

from typing import Any

import msgspec

from dedup.service.core.overview import Overview
from dedup.service.http.json_types import ENDPOINTS, DocumentAnswer, Failed, Health, SeenAnswer

__all__ = ["openapi"]

ERRORS = {
    "400": "The request is not what this document says.",
    "401": "The token is missing or wrong.",
    "403": "The Host is not one of this service's, or the token's role may not do this (NOPERM).",
    "409": "RECIPE or DISTANCE: this namespace cannot judge such pages.",
    "413": "LIMIT: too much at once.",
    "421": "ELSEWHERE: the key belongs to a partition that is not held here.",
    "415": "The body is not JSON.",
    "503": "NOTREADY or STORE: keep the page, and ask again later.",
}


def openapi(version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the interface."""
    types = [kind for pair in ENDPOINTS.values() for kind in pair]
    types += [DocumentAnswer, SeenAnswer, Health, Failed, Overview]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    of = dict(zip(types, schemas, strict=True))

    def answer(kind: type, text: str) -> dict[str, Any]:
        return {"description": text, "content": {"application/json": {"schema": of[kind]}}}

    errors = {status: answer(Failed, text) for status, text in ERRORS.items()}
    elsewhere = errors.pop("421")  # of one item, not of a whole request
    query = [
        {"name": name, "in": "query", "required": True, "schema": {"type": "string"}}
        for name in ("ns", "key")
    ]
    open_to_all = {"403": errors["403"]}
    paths: dict[str, Any] = {
        f"/v1/{name}": {
            "post": {
                "summary": (request.__doc__ or "").strip(),
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": of[request]}},
                },
                "responses": {"200": answer(answered, (answered.__doc__ or "").strip()), **errors},
            }
        }
        for name, (request, answered) in ENDPOINTS.items()
    }
    paths["/v1/documents"] = {
        "get": {
            "summary": "A stored document.",
            "parameters": query,
            "responses": {
                "200": answer(DocumentAnswer, "The document."),
                "404": answer(Failed, "There is none."),
                **{status: errors[status] for status in ("400", "401", "403", "503")},
                "421": elsewhere,
            },
        }
    }
    paths["/v1/near-duplicates"] = {
        "get": {
            "summary": "Near-duplicates judged lately: with this key or fingerprint, or of this document.",
            "parameters": query,
            "responses": {
                "200": answer(SeenAnswer, "The last ones, the newest first."),
                **{status: errors[status] for status in ("400", "401", "403")},
            },
        }
    }
    lines = {"description": "A document a line.", "content": {"application/x-ndjson": {}}}
    lines["headers"] = {
        "x-dedup-next": {
            "description": "The id to go on from; absent at the end.",
            "schema": {"type": "integer"},
        }
    }
    paths["/v1/export"] = {
        "get": {
            "summary": "Documents of a namespace from an id on, as `dedup store import` takes them.",
            "parameters": [
                {"name": "ns", "in": "query", "required": True, "schema": {"type": "string"}},
                {"name": "from", "in": "query", "schema": {"type": "integer", "default": 0}},
            ],
            "responses": {
                "200": lines,
                "404": answer(Failed, "There is no such namespace."),
                **{status: errors[status] for status in ("400", "401", "403", "503")},
            },
        }
    }
    paths["/v1/overview"] = {
        "get": {
            "summary": "What the dashboard shows.",
            "responses": {
                "200": answer(Overview, (Overview.__doc__ or "").strip()),
                **{status: errors[status] for status in ("401", "403")},
            },
        }
    }
    for path, text in (("/livez", "The process works."), ("/readyz", "Probes are answered.")):
        paths[path] = {
            "get": {
                "summary": text,
                "security": [],
                "responses": {
                    "200": answer(Health, text),
                    "503": answer(Health, "Not so; the reason says why."),
                    **open_to_all,
                },
            }
        }
    for path, kind, text in (
        ("/metrics", "text/plain", "Figures for Prometheus."),
        ("/openapi.json", "application/json", "This description."),
        ("/", "text/html", "The dashboard."),
        ("/dashboard.css", "text/css", "Its style."),
        ("/dashboard.js", "text/javascript", "Its script."),
        ("/drawing.js", "text/javascript", "The part of it that draws."),
    ):
        schema = {"type": "object" if kind == "application/json" else "string"}
        paths[path] = {
            "get": {
                "summary": text,
                "responses": {
                    "200": {"description": text, "content": {kind: {"schema": schema}}},
                    **open_to_all,
                },
            }
        }
    paths["/metrics"]["get"]["responses"]["401"] = errors["401"]
    for path in ("/openapi.json", "/", "/dashboard.css", "/dashboard.js", "/drawing.js"):
        paths[path]["get"]["security"] = []
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dedup table service",
            "version": version,
            "description": "Near-duplicates of web pages. docs/protocol.md tells the same in prose.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
