"""One of `models` by MLServer, in its one process."""

import asyncio
import sys
from typing import Any

import numpy as np
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse

from benchmarks.peers.models import WAIT_S, Metered, kind
from benchmarks.processes import free_port


class Model(MLModel):  # type: ignore[misc]  # it is not looked into
    model: Any

    async def load(self) -> bool:
        self.model = Metered()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        answers = self.model.predict(StringCodec.decode_input(payload.inputs[0]))
        encode = StringCodec.encode_output if isinstance(answers[0], str) else _encode_numbers
        return InferenceResponse(model_name=self.name, outputs=[encode("answers", answers)])


def _encode_numbers(name: str, answers: list[list[float]]) -> Any:
    return NumpyCodec.encode_output(name, np.array(answers))


async def serve(port: int) -> None:
    settings = Settings(
        host="127.0.0.1", http_port=port, grpc_port=free_port(), metrics_endpoint=None, parallel_workers=0, debug=False
    )
    model = ModelSettings(
        name="model", implementation=Model, max_batch_size=kind().max_batch_size, max_batch_time=WAIT_S
    )
    await MLServer(settings).start([model])


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
