"""Answer images over HTTP with what a packed model finds in them.

    pip install fastapi uvicorn
    python demo/serve.py zoo:blood-cells-tiny
    curl --data-binary @photo.jpg http://127.0.0.1:8000/

The answer is the ``result`` of a line of ``rebnn run --json``. Requests that arrive in the meantime are batched.
There is no password and no encryption: let a server such as nginx stand between this one and a network.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rebnn_mm.deploy import Classifier, DeployError, Detections, Detector, ImageError, load
from rebnn_mm.deploy.run import as_json, positive, share
from rebnn_mm.errors import RebnnError, report_errors

LARGEST = 32 << 20
"""Bytes of an image file."""


class Server:
    """One network, and the images that wait for it.

    Args:
        model: from :func:`rebnn_mm.deploy.load`.
        batch: how many images go through it together.
        waiting: how many may wait; more are sent away.
        score_thr: lowest score of an object.
    """

    def __init__(self, model: Classifier | Detector, batch: int, waiting: int, score_thr: float) -> None:
        self.model, self.batch, self.score_thr = model, batch, score_thr
        self.queue: asyncio.Queue[tuple[bytes, asyncio.Future[Any]]] = asyncio.Queue(waiting)
        self.images = self.batches = 0

    async def result(self, image: bytes) -> Any:
        """Find the objects of one image.

        Raises:
            asyncio.QueueFull: too many wait.
            DeployError: the image cannot be read, or the model fails.
        """
        future = asyncio.get_running_loop().create_future()
        self.queue.put_nowait((image, future))
        return await future

    async def work(self) -> None:
        """Take what waits through the network, again and again."""
        while True:
            some = [await self.queue.get()]
            while len(some) < self.batch and not self.queue.empty():
                some.append(self.queue.get_nowait())
            results = await asyncio.to_thread(self._results, [image for image, _ in some])
            self.images, self.batches = self.images + len(some), self.batches + 1
            for (_, future), result in zip(some, results, strict=True):
                if future.cancelled():  # who asked has gone
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _results(self, images: list[bytes]) -> list[Any]:
        try:
            found = list(self.model.stream(images, batch=len(images), on_error='return'))
        except Exception as error:  # of the model: the next images may be smaller
            return [error] * len(images)
        return [one.at_least(self.score_thr) if isinstance(one, Detections) else one for one in found]


def make_app(model: Classifier | Detector, batch: int = 8, waiting: int = 64, score_thr: float = 0.3) -> Any:
    """The application of FastAPI that uvicorn runs; see :class:`Server` for the arguments."""
    from fastapi import FastAPI, HTTPException, Request

    server = Server(model, batch, waiting, score_thr)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(server.work())
        yield
        task.cancel()

    app = FastAPI(title='A packed model', lifespan=lifespan)

    @app.post('/')
    async def find(request: Request) -> Any:
        """Objects or labels of the image whose file is the body."""
        image = bytearray()
        async for part in request.stream():
            image += part
            if len(image) > LARGEST:
                raise HTTPException(413, f'an image may have {LARGEST >> 20} MiB')
        try:
            return as_json(await server.result(bytes(image)))
        except asyncio.QueueFull:
            raise HTTPException(503, 'too many images wait; try again', {'Retry-After': '1'}) from None
        except ImageError as error:
            raise HTTPException(422, str(error)) from None
        except DeployError as error:
            raise HTTPException(500, str(error)) from None

    @app.get('/')
    async def about() -> dict[str, Any]:
        """Describe the model and what it has done."""
        known = {'task': model.metadata.task, 'classes': model.classes}
        return {**known, 'images': server.images, 'batches': server.batches}

    return app


def parse_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model', help='packed detector or classifier, zoo:<name> or hf:owner/name')
    parser.add_argument('--host', default='127.0.0.1', help='address to listen on; default: %(default)s')
    parser.add_argument('--port', type=int, default=8000, help='default: %(default)s')
    parser.add_argument('--threads', type=positive, default=1, help='of the network; default: %(default)s')
    parser.add_argument('--batch', type=positive, default=8, help='most images at a time; default: %(default)s')
    parser.add_argument('--score-thr', type=share, default=0.3, help='lowest score of an object; default: %(default)s')
    return parser.parse_args(arguments)


@report_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until it is stopped."""
    args = parse_args(arguments)
    try:
        import fastapi  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise RebnnError(f'{error.name} is not installed.', fix='Run: pip install fastapi uvicorn') from error
    model = load(args.model, args.threads)
    if not isinstance(model, Classifier | Detector):
        raise RebnnError(f'{args.model} gives neither labels nor boxes of images.')
    uvicorn.run(make_app(model, args.batch, score_thr=args.score_thr), host=args.host, port=args.port)


if __name__ == '__main__':
    main()
