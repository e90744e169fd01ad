"""The handler of `handlers.embed` as it was before it was decorated."""

from typing import Any, cast

from handlers import embed

PlainEmbed: Any = cast(Any, embed.Embed).user
"""The class itself: made, set up and called like any other."""
