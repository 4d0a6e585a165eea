"""`habana_tf.fp8_report`: what 8 bits do to the numbers of a model, layer by layer.

`observer` watches the casts and products of a program, `report` shows them, `measurements` looks at the files that
Neural Compressor's calibration writes.
"""
