"""Clusters of TensorFlow's ops: what the compiler asks of a cluster (`cluster.cluster`), answered for a GraphDef."""
