"""The tree of fields that the models span: finding one by its path, and listing them all."""

import types
import typing
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Path = tuple[str | int, ...]

_HOLDERS = (typing.Union, types.UnionType, list, typing.Annotated)


def model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """The model that stands at the path; None where the path leaves the tree."""
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        info = here.model_fields.get(part) if here else None
        here = inner_model(info) if info else None
    return here


def field_path(model: type[BaseModel], path: Path) -> tuple[str, ...]:
    """The part of the path that names fields: an entry of `env` belongs to `env`."""
    here: type[BaseModel] | None = model
    found: tuple[str, ...] = ()
    for part in path:
        if isinstance(part, int):
            continue
        info = here.model_fields.get(part) if here else None
        if info is None:
            break
        found, here = (*found, part), inner_model(info)
    return found


def field_at(model: type[BaseModel], path: tuple[str, ...]) -> FieldInfo | None:
    """The field that a path of names leads to."""
    holder = model_at(model, path[:-1])
    return holder.model_fields.get(path[-1]) if holder and path else None


def every_field(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Dotted paths in the order of the file, each part before its own fields."""
    for name, info in model.model_fields.items():
        yield f"{above}{name}", info
        inner = inner_model(info)
        if inner is not None:
            yield from every_field(inner, f"{above}{name}.")


def inner_model(info: FieldInfo) -> type[BaseModel] | None:
    """The model that a field holds: alone, in a list, or beside None."""
    return _model_in(info.annotation)


def allowed_in(info: FieldInfo | None) -> str:
    """The words that say what may be written there."""
    extra = info.json_schema_extra if info else None
    return str(extra.get("allowed", "")) if isinstance(extra, dict) else ""


def example_of(info: FieldInfo | None) -> object:
    return info.examples[0] if info and info.examples else None


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) not in _HOLDERS:
        return None
    return next(filter(None, map(_model_in, typing.get_args(annotation))), None)
