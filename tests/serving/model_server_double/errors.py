"""What goes wrong, with the code that REST and gRPC answer with."""


class ServerError(Exception):
    """A request that has no answer.

    Args:
        message: for the caller.
        http_status: 400 for a wrong request, 404 for what is not served.
    """

    def __init__(self, message: str, http_status: int = 400) -> None:
        super().__init__(message)
        self.http_status = http_status
