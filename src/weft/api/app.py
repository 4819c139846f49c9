"""The API of one world, as an ASGI application."""

from collections.abc import Collection

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from weft import __version__
from weft.api.answers import on_defect, on_http_error, on_invalid, on_weft_error
from weft.api.backend import Backend
from weft.api.gate import Gate
from weft.api.routes import routes_to
from weft.api.streams import Streams
from weft.model.errors import WeftError


def create_app(backend: Backend, *, admins: Collection[int] = (0,)) -> FastAPI:
    """All routes to that backend; users with these numbers may do what any owner may."""
    app = FastAPI(
        title="Weft",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.streams = Streams()
    app.include_router(routes_to(backend, app.state.streams))
    app.add_exception_handler(WeftError, on_weft_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(Exception, on_defect)
    app.add_middleware(Gate, admins=admins)
    return app
