"""A test double of TensorFlow's model server, for machines where the real one cannot be installed.

It is NOT the real server. It loads a SavedModel with the plain TensorFlow loader, links the operations
of TensorFlow Text from their libraries, replays the warm-up file, joins requests by the rules of the
server's batching session, and speaks the documented REST JSON and gRPC of the server: enough to try the
clients of `examples/tf_serving`. It has no metrics, and says nothing about the speed of the real one.
Messages of errors are worded like the server's where its documentation or its source shows them.

PYTHONPATH=tests/serving python -m model_server_double --help
"""
