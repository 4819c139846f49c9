"""JSON Schema of the job file, for editors.

    python -m weft.spec.schema > docs/job-file.schema.json

An editor that is shown it completes fields, tells what they mean and marks what is misspelt.
"""

import json
import sys
from typing import Any, Final

from weft.spec.job_file import JobFile

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"

Schema = dict[str, Any]


def job_file_schema() -> Schema:
    """The whole job file, its name first."""
    made = JobFile.model_json_schema()
    found: Schema = {"$schema": DIALECT, "title": "Weft job file", **_clean(made)}
    fields = found["properties"]
    found["properties"] = {"name": fields.pop("name"), **fields}
    _allow_one_type(found["$defs"]["Resources"]["properties"]["gpu_type"])
    return found


def schema_text() -> str:
    """The file's text."""
    return json.dumps(job_file_schema(), indent=2, ensure_ascii=False) + "\n"


def _clean(made: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Without pydantic's titles and our own words, in the dialect that editors know."""
    if isinstance(made, list):
        return [_clean(part) for part in made]
    if not isinstance(made, dict):
        return made
    found = {
        key: {name: _clean(part) for name, part in value.items()}
        if key in ("properties", "$defs")
        else _clean(value)
        for key, value in made.items()
        if key not in ("title", "allowed")
    }
    return _number_or_text(found) if found.pop(INT_OR_STRING, False) else found


def _number_or_text(made: Schema) -> Schema:
    number = {"type": "integer", "minimum": made.pop("minimum"), "maximum": made.pop("maximum")}
    text = {"type": "string", "pattern": made.pop("pattern"), "maxLength": made.pop("maxLength")}
    return {"anyOf": [number, text], **made}


def _allow_one_type(gpu_type: Schema) -> None:
    """A job file may name one GPU type without brackets."""
    many = next(option for option in gpu_type["anyOf"] if option.get("type") == "array")
    gpu_type["anyOf"].insert(0, many["items"])


if __name__ == "__main__":
    sys.stdout.write(schema_text())
