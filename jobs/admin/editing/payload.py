"""The payload of a job by its type's schema: inputs for its plain fields, and a sample. The form still sends the JSON.

A tenant writes the schemas of its own types. So only a bounded part of each is read, and a field that it does not
describe plainly gets a JSON input.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobs.actions.pull.types import find_type, kind_of
from jobs.admin.editing.fragments import FormFragment
from jobs.core.errors import InvalidInput, NotFound
from jobs.handlers import registry
from jobs.shapes.terms import seconds

MAX_FIELDS = 30
_MAX_DEPTH = 4
_MAX_TEXT = 300
_KINDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
_SAMPLES = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class Input:
    """The input of one field of the payload: ``kind`` is text, integer, number, boolean, choice or json."""

    name: str
    kind: str
    required: bool
    description: str
    default: str
    choices: tuple[str, ...] = ()


class PayloadFields(FormFragment):
    template_name = "admin/jobs/job/form/payload.html"

    def told(self) -> dict[str, Any]:
        name = self.request.POST.get("job_type", "").strip()
        if self.tenant is None or not name or "\0" in name:
            return {"waits_for": "a tenant" if self.tenant is None else "a job type"}
        try:
            kind = kind_of(name, tenant=self.tenant)
        except InvalidInput:
            return {"unknown": name[:100]}
        schema, description = self._declared(name)
        return {
            "name": name,
            "description": description,
            "timeout": seconds(kind.timeout),
            "fields": list(fields_of(schema)),
            "sample": json.dumps(sample_of(schema), ensure_ascii=False, indent=2) if schema else "",
            "can_be_tried": name == "webhook",
        }

    def _declared(self, name: str) -> tuple[dict[str, Any], str]:
        """The schema of the tenant's type, or of a registered one, and its description."""
        assert self.tenant is not None
        try:
            own = find_type(tenant=self.tenant, name=name)
        except NotFound:
            registered = registry.get(name)
            model = registered.payload
            return (model.model_json_schema() if model else {}), registered.description
        return own.payload_schema or {}, own.description


def fields_of(schema: Any) -> Iterator[Input]:
    """Inputs of the first ``MAX_FIELDS`` fields of an object."""
    properties, required = _part(schema, "properties", dict), _part(schema, "required", list)
    for name, told in list(properties.items())[:MAX_FIELDS]:
        part = _resolved(told, schema)
        choices = tuple(each for each in _part(part, "enum", list)[:100] if isinstance(each, str))
        kind = "choice" if choices else _KINDS.get(str(part.get("type")), "json")
        default = part.get("default")
        yield Input(
            name=name,
            kind=kind,
            required=name in required,
            description=str(part.get("description", ""))[:_MAX_TEXT],
            default="" if default is None else json.dumps(default)[:_MAX_TEXT].strip('"'),
            choices=choices,
        )


def sample_of(schema: Any, *, root: Any = None, depth: int = 0, name: str = "") -> Any:
    """A sample for the schema: its example or default where it has one. The sample need not meet the whole schema."""
    root = schema if root is None else root
    part = _resolved(schema, root)
    if examples := _part(part, "examples", list):
        return examples[0]
    for told in ("const", "default"):
        if part.get(told) is not None:
            return part[told]
    if choices := _part(part, "enum", list):
        return choices[0]
    kind = part.get("type", "object" if "properties" in part else "string" if name else "object")
    if kind == "object" and depth < _MAX_DEPTH:
        required = _part(part, "required", list)
        inner = list(_part(part, "properties", dict).items())[:MAX_FIELDS]
        return {
            key: sample_of(told, root=root, depth=depth + 1, name=key)
            for key, told in inner
            if key in required or key == "body"
        }
    if kind == "string":
        return "https://example.com/hook" if "url" in name.lower() else "text"
    lowest = part.get("minimum")
    return lowest if kind in ("integer", "number") and lowest is not None else _SAMPLES.get(str(kind))


def _resolved(part: Any, root: Any) -> dict[str, Any]:
    """``part`` behind a reference to the schema's own definitions, or its first alternative that is not null."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(part, dict):
            return {}
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/"):
            part = _part(root, "$defs", dict).get(reference.removeprefix("#/$defs/"))
            continue
        others = _part(part, "anyOf", list) or _part(part, "oneOf", list)
        chosen = next((one for one in others if isinstance(one, dict) and one.get("type") != "null"), None)
        if chosen is None:
            return part
        part = {**{name: told for name, told in part.items() if name not in ("anyOf", "oneOf")}, **chosen}
    return part if isinstance(part, dict) else {}


def _part(schema: Any, name: str, kind: type) -> Any:
    found = schema.get(name) if isinstance(schema, dict) else None
    return found if isinstance(found, kind) else kind()
