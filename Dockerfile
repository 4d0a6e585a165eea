# habana_tf, and its demo: a network learns handwritten digits on the simulated Gaudi, as a user without rights.
#
#   docker build -t habana_tf .
#   docker run --rm habana_tf                                          # the demo
#   docker run --rm -it --shm-size=1g -v "$PWD:/work" habana_tf bash   # your programs; MPI wants /dev/shm
FROM python:3.11-slim-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY CMakeLists.txt pyproject.toml README.md LICENSE ./
COPY kernels kernels
COPY habana_frameworks habana_frameworks
COPY habana_tf habana_tf
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[tensorflow-2-15,examples]"
COPY examples /opt/habana_tf/examples
RUN useradd --create-home --uid 1000 hpu && mkdir /work && chown hpu /work
USER 1000
WORKDIR /work
# TensorFlow's notes on the CPU at each start say nothing here; recipes are kept while the container lives.
ENV TF_CPP_MIN_LOG_LEVEL=2 TF_RECIPE_CACHE_PATH=/home/hpu/recipes
CMD ["python", "/opt/habana_tf/examples/train_digits.py"]
