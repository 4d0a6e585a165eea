"""All of Keras on HPU: every optimizer, schedule, activation, loss, metric and layer beside stock TensorFlow."""
