"""What is said about the job file: pages, schema, help, and the file to begin with."""

import json
from pathlib import Path

import pytest

from weft.model.errors import UnknownName
from weft.spec.explain import Help, example_file, help_on, help_text, page
from weft.spec.fields import allowed_in, every_field, example_of, inner_model
from weft.spec.job_file import JobFile
from weft.spec.reading import parse_job_file
from weft.spec.resource_fields import Resources
from weft.spec.schema import job_file_schema, schema_text
from weft.spec.template import job_template

DOCS = Path(__file__).parents[2] / "docs"
FIELDS = dict(every_field(JobFile))


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "job-file.md").read_text() == page()


def test_the_schema_is_up_to_date() -> None:
    assert (DOCS / "job-file.schema.json").read_text() == schema_text()


@pytest.mark.parametrize("path", FIELDS)
def test_every_field_is_told(path: str) -> None:
    info = FIELDS[path]
    assert info.description
    assert info.description.endswith(".")
    assert example_of(info) is not None
    assert allowed_in(info) or inner_model(info)
    told = help_on(path)
    assert told.path == path
    assert path in help_text(told)
    assert told.description in help_text(told)


def test_the_example_sets_every_field_of_a_job_with_gpus() -> None:
    job = parse_job_file(example_file())
    assert job.model_fields_set == set(JobFile.model_fields)
    assert set(Resources.model_fields) - job.resources.model_fields_set == {
        "cpus",
        "memory",
    }


def test_help_on_one_field() -> None:
    assert help_on("resources.gpus") == Help(
        path="resources.gpus",
        description="How many GPUs. A range makes the job elastic: it runs on any number in it and "
        "is given the larger end where there is room. 0 means a job without GPUs.",
        kind="whole number or range",
        allowed="a whole number 0 to 99999, or a range such as 4..16",
        default="1",
        example="gpus: 4..16",
    )


def test_kinds_and_defaults() -> None:
    kinds = {path: help_on(path).kind for path in FIELDS}
    assert kinds["run"] == "text"
    assert kinds["volumes"] == "list of fields"
    assert kinds["volumes.read_only"] == "true or false"
    assert kinds["env"] == "names with text"
    assert kinds["resources.gpu_type"] == "list"
    assert kinds["resources.cpus"] == "number"
    assert help_on("run").default == "required"
    assert help_on("resources").default == "{gpus: 1}"


@pytest.mark.parametrize(
    ("path", "meant"),
    [("resource.gpus", "resources.gpus"), ("gpus", "resources.gpus"), ("queues", "queue")],
)
def test_help_on_a_field_that_does_not_exist(path: str, meant: str) -> None:
    with pytest.raises(UnknownName) as caught:
        help_on(path)
    assert f"'{meant}'" in caught.value.hint


def test_the_first_file_works_as_it_is() -> None:
    for local in (True, False):
        job = parse_job_file(job_template("first", local=local))
        assert job.name == "first"
        assert job.run == "echo hello from rank $RANK of $WORLD_SIZE"
    for word in ("image", "volumes", "claim", "cluster", "pod", "queue:"):
        assert word not in job_template(local=True)


@pytest.mark.parametrize(("local", "number"), [(True, 10), (False, 15)])
def test_what_the_first_file_offers_works_too(local: bool, number: int) -> None:
    lines = job_template(local=local).splitlines()
    offers = [n for n, line in enumerate(lines) if line.lstrip().startswith("#") and ":" in line]
    offered = [n for n in offers if lines[n].lstrip()[1] != " "]
    for each in offered:
        lines[each] = lines[each].replace("#", "", 1)
    job = parse_job_file("\n".join(lines))
    assert len(offered) == number
    assert job.resources.gpu_type == ["H100", "A100"]
    assert job.ttl == "7d"


def test_the_schema_knows_both_ways_to_write_gpus() -> None:
    schema = job_file_schema()
    resources = schema["$defs"]["Resources"]["properties"]
    assert [option["type"] for option in resources["gpus"]["anyOf"]] == ["integer", "string"]
    assert [option["type"] for option in resources["gpu_type"]["anyOf"]][:2] == ["string", "array"]
    assert next(iter(schema["properties"])) == "name"
    assert schema["additionalProperties"] is False
    assert "kubernetes" not in json.dumps(schema)
