"""The handler of `handlers.embed` by MLServer, in its one process."""

import asyncio
import sys
from typing import Any

import numpy as np
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse

from benchmarks.functions.plain import PlainEmbed


class Embed(MLModel):  # type: ignore[misc]  # it is not looked into
    embed: Any

    async def load(self) -> bool:
        self.embed = PlainEmbed()
        self.embed.setup()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        texts = StringCodec.decode_input(payload.inputs[0])
        vectors = np.array(self.embed.predict(texts))
        outputs = [NumpyCodec.encode_output("vectors", vectors)]
        return InferenceResponse(model_name=self.name, outputs=outputs)


async def serve(port: int) -> None:
    settings = Settings(
        host="127.0.0.1", http_port=port, grpc_port=port + 1, metrics_endpoint=None, parallel_workers=0, debug=False
    )
    await MLServer(settings).start([ModelSettings(name="embed", implementation=Embed)])


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
