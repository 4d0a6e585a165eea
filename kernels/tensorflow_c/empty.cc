// A library with one of TensorFlow's names and nothing in it, to link the plugin against (CMakeLists.txt).
