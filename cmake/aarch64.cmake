# Builds for AArch64 on another machine, with GCC's cross compiler (Debian: g++-aarch64-linux-gnu). `make dist` makes
# wheels so (release/dist.py). Python's headers are those of the Python that runs here. Debian's own python3-dev has a
# pyconfig.h per architecture: use a Python from another source (uv, pyenv), or install libpython3-dev:arm64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
