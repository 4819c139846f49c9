"""What a job computes with, as its owner asks for it: GPUs, and what stands beside each."""

from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from weft.model.errors import SpecError
from weft.spec.pod_fields import MAX_DEVICES, Devices, listed_once
from weft.spec.quantity import (
    GPUS_PATTERN,
    MAX_GPUS,
    MEMORY_PATTERN,
    MEMORY_WORDS,
    Range,
    gpu_range,
)
from weft.spec.strict import Strict, told
from weft.spec.strict import wrong as _wrong

MAX_GPU_TYPES: Final = 16
LABEL_PATTERN: Final = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"


def _read_gpus(written: object) -> int | str:
    try:
        gpu_range(written)  # type: ignore[arg-type]  # anything may be written
    except SpecError as error:
        raise _wrong(str(error), hint=error.hint) from None
    assert isinstance(written, int | str)
    return written


def _one_or_more(written: object) -> object:
    return [written] if isinstance(written, str) else written


Gpus = Annotated[
    int | str,
    PlainValidator(_read_gpus),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "maximum": MAX_GPUS,
            "pattern": GPUS_PATTERN,
            "maxLength": 12,
        }
    ),
]
GpuTypes = Annotated[
    list[Annotated[str, Field(pattern=LABEL_PATTERN, max_length=63)]],
    Field(min_length=1, max_length=MAX_GPU_TYPES),
    BeforeValidator(_one_or_more),
    AfterValidator(listed_once),
]
Memory = Annotated[str, Field(pattern=MEMORY_PATTERN, max_length=16)]
# Not "at least 0.1": the API server cuts a bound to a whole number where it meets one.
Cpus = Annotated[float, Field(gt=0, le=4096, allow_inf_nan=False)]


class Resources(Strict):
    """What the job computes with."""

    gpus: Gpus = told(
        1,
        "How many GPUs. A range makes the job elastic: it runs on any number in it and is given "
        "the larger end where there is room. 0 means a job without GPUs.",
        allowed=f"a whole number 0 to {MAX_GPUS}, or a range such as 4..16",
        example="4..16",
    )
    gpu_type: GpuTypes | None = told(
        None,
        "GPU types that the job accepts, any of them; without it, every type of whole GPUs. Parts "
        "of GPUs go by their profile, such as MIG-1g.5gb. A job file may name "
        "one without brackets.",
        allowed=f"up to {MAX_GPU_TYPES} names of letters, digits and . _ -, up to 63 characters",
        example=["H100", "A100"],
    )
    cpus_per_gpu: Cpus | None = told(
        None,
        "CPU cores for each GPU.",
        allowed="a number above 0, up to 4096",
        example=8,
    )
    memory_per_gpu: Memory | None = told(
        None,
        "Main memory for each GPU.",
        allowed=MEMORY_WORDS,
        example="64GB",
    )
    devices_per_gpu: Devices | None = told(
        None,
        "Other devices for each GPU, by the name of their resource: network cards for RDMA, say. "
        "A node without them is never chosen. Each worker gets whole ones, rounded down.",
        allowed=f"up to {MAX_DEVICES} names such as rdma/hca with a number above 0, up to 1024",
        example={"rdma/hca": 1},
    )
    cpus: Cpus | None = told(
        None,
        "CPU cores of a job without GPUs; required there, refused elsewhere.",
        allowed="a number above 0, up to 4096",
        example=16,
    )
    memory: Memory | None = told(
        None,
        "Main memory of a job without GPUs.",
        allowed=MEMORY_WORDS,
        example="100GB",
    )

    @property
    def width(self) -> Range:
        return gpu_range(self.gpus)

    @model_validator(mode="after")
    def _per_gpu_or_whole(self) -> "Resources":
        if self.width.most == 0:
            self._refuse(PER_GPU, "a job without GPUs")
            if self.cpus is None:
                raise _wrong(
                    "a job without GPUs needs cpus", hint="add cpus, such as 16", field="cpus"
                )
            return self
        self._refuse(("cpus", "memory"), "a job with GPUs")
        self._demand_whole_devices()
        return self

    def _demand_whole_devices(self) -> None:
        """The least width has one of each at least."""
        least = max(self.width.least, 1)
        for name, amount in (self.devices_per_gpu or {}).items():
            if amount * least < 1:
                raise _wrong(
                    f"{least} GPUs with {amount:g} of {name} each have none of it",
                    hint="ask for more of it, or for more gpus",
                    field="devices_per_gpu",
                )

    def _refuse(self, names: tuple[str, ...], who: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                hint = WRITE_INSTEAD.get(name, "remove it, or ask for gpus")
                raise _wrong(f"{who} cannot have {name}", hint=hint, field=name)


PER_GPU: Final = ("cpus_per_gpu", "memory_per_gpu", "gpu_type", "devices_per_gpu")
WRITE_INSTEAD: Final = {
    "cpus": "write cpus_per_gpu",
    "memory": "write memory_per_gpu",
    "cpus_per_gpu": "write cpus",
    "memory_per_gpu": "write memory",
}
