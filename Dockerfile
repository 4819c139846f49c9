# Weft's images, built in a checkout:
#
#   docker build --target operator -t registry.example.com/weft:0.1.0 .
#   docker build --target train -t registry.example.com/weft-train:0.1.0 .
#
# tests/testcluster/test_dockerfile.py holds them against the images that the tests run.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS base
ENV PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /
CMD ["python"]

FROM base AS build
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN python -m venv /venv

FROM build AS build-train
RUN pip install --no-cache-dir '/src[kube,train]'

FROM build AS build-operator
RUN pip install --no-cache-dir '/src[kube]'

# What workers run: the agent is the first process, and the examples are there to try.
FROM base AS train
COPY --from=build-train /venv /venv
COPY examples/*.py /examples/
USER 1000:1000

# What the chart runs, and what is built unless another target is named.
FROM base AS operator
COPY --from=build-operator /venv /venv
USER 65532:65532
