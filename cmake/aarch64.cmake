# Builds for AArch64 on another machine, with GCC's cross compiler (Debian: g++-aarch64-linux-gnu). `make dist` makes
# wheels so (release/dist.py). Python's headers are those of the Python that runs here: on 64-bit Linux they differ
# between architectures in nothing that an extension module sees.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
