"""An echo of JSON by MLServer, in its one process: a request of its own protocol, given back as it came."""

import asyncio
import sys

from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput

from benchmarks.processes import free_port


class Echo(MLModel):  # type: ignore[misc]  # it is not looked into
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        [came] = payload.inputs
        out = ResponseOutput(name=came.name, shape=came.shape, datatype=came.datatype, data=came.data)
        return InferenceResponse(model_name=self.name, outputs=[out])


async def serve(port: int) -> None:
    settings = Settings(
        host="127.0.0.1", http_port=port, grpc_port=free_port(), metrics_endpoint=None, parallel_workers=0, debug=False
    )
    await MLServer(settings).start([ModelSettings(name="echo", implementation=Echo)])


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
