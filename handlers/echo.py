"""An echo: what comes in goes out. For trying a platform, and for measuring what it costs."""

from typing import Any

from faas import inference_function


@inference_function(name="echo", warmup=[{"message": "hello"}])
async def echo(body: Any) -> Any:
    """Return the body."""
    return body
