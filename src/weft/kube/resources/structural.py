"""From a pydantic model to the structural schema that a custom resource is declared with.

The API server's schemas are a dialect: no references, no alternatives but "a number or text", no
`additionalProperties: false`. What pydantic says in other words is said here in those.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

Schema = dict[str, Any]

KEPT: Final = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "x-kubernetes-int-or-string",
)
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"


def structural(model: type[BaseModel], *, defaults: bool) -> Schema:
    """The model's schema; `defaults` are left out of what the operator writes itself."""
    whole = model.model_json_schema(by_alias=True)
    return _translated(whole, whole.get("$defs", {}), defaults)


def keep_unknown(schema: Schema) -> None:
    """Let fields that the schema does not know pass its pruning, at every depth.

    A pruned field is gone before anybody can refuse it; see `admission`.
    """
    if "properties" in schema:
        schema[PRESERVE] = True
        for inner in schema["properties"].values():
            keep_unknown(inner)
    if "items" in schema:
        keep_unknown(schema["items"])


def at(schema: Schema, path: str) -> Schema:
    """The part of a schema that a dotted path names; `[]` enters a list, `{}` a map."""
    for part in filter(None, path.split(".")):
        if part == "[]":
            schema = schema["items"]
        elif part == "{}":
            schema = schema["additionalProperties"]
        else:
            schema = schema["properties"][part]
    return schema


def _translated(schema: Mapping[str, Any], known: Mapping[str, Any], defaults: bool) -> Schema:
    plain = _plain(schema, known)
    found: Schema = {key: plain[key] for key in KEPT if key in plain}
    _settle_default(found, defaults)
    if "exclusiveMinimum" in plain:
        found |= {"minimum": plain["exclusiveMinimum"], "exclusiveMinimum": True}
    if found.get("type") == "integer":
        found["format"] = "int64"
    if "properties" in plain:
        found["properties"] = {
            name: _translated(inner, known, defaults) for name, inner in plain["properties"].items()
        }
    elif found.get("type") == "object":
        found["additionalProperties"] = _translated(_entries(plain), known, defaults)
    if "items" in plain:
        found["items"] = _translated(plain["items"], known, defaults)
        found["x-kubernetes-list-type"] = "atomic"
    return found


def _plain(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Schema:
    """Without references and without the alternative `null`."""
    outer = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _plain(known[name], known) | outer
    options = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if not options:
        return outer
    (only,) = options
    return _plain(only, known) | outer


def _entries(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a map holds; pydantic files it under a pattern where names have one."""
    named = schema.get("patternProperties")
    if named:
        (only,) = named.values()
        return dict(only)
    return dict(schema["additionalProperties"])


def _settle_default(schema: Schema, wanted: bool) -> None:
    """An object's default is written out: rules see it before the defaults inside are added."""
    default = schema.pop("default", None)
    if isinstance(default, dict):
        default = {name: value for name, value in default.items() if value is not None}
    if wanted and default not in (None, [], {}):
        schema["default"] = default
