"""What goes wrong, with the code that REST and gRPC answer with."""

# As `http_server.cc` has them.
HTTP_STATUSES = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "NOT_FOUND": 404,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
}


class ServerError(Exception):
    """A request that has no answer.

    Args:
        message: for the caller.
        code: the name of the status in gRPC.
    """

    def __init__(self, message: str, code: str = "INVALID_ARGUMENT") -> None:
        super().__init__(message)
        self.code, self.http_status = code, HTTP_STATUSES[code]
