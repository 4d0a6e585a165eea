"""The compiled part of habana_tf: libhabana_runtime.so, libhabana_plugin.so and the module `_bridge`.

Built from kernels/ by CMake; nothing else lives here.
"""
