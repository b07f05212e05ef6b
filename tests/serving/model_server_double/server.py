"""Both interfaces on their ports."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent import futures
from socketserver import ThreadingMixIn
from typing import NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

from model_server_double.registry import Registry
from model_server_double.rest import rest_application
from model_server_double.rpc import PredictionService

HOST = "127.0.0.1"


class Ports(NamedTuple):
    """Where the double listens."""

    rest: int
    grpc: int


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, *arguments: object) -> None:
        del arguments


@contextlib.contextmanager
def serving(registry: Registry, rest_port: int = 0, grpc_port: int = 0) -> Iterator[Ports]:
    """Serve a registry until the block ends; a port of 0 takes a free one."""
    rest_server = make_server(HOST, rest_port, rest_application(registry), _ThreadingServer, _QuietHandler)
    threading.Thread(target=rest_server.serve_forever, daemon=True).start()
    # As the real server, which sets both to the largest that there is; gRPC itself takes 4 MiB.
    sizes = [(f"grpc.max_{way}_message_length", 2**31 - 1) for way in ("receive", "send")]
    rpc_server = grpc.server(futures.ThreadPoolExecutor(max_workers=2), options=sizes)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(registry), rpc_server
    )
    bound_grpc_port = rpc_server.add_insecure_port(f"{HOST}:{grpc_port}")
    rpc_server.start()
    try:
        yield Ports(rest_server.server_port, bound_grpc_port)
    finally:
        rest_server.shutdown()
        rest_server.server_close()
        rpc_server.stop(grace=None).wait()
