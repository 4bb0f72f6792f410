"""Base of loaded models (session, errors, preparation of images), and the model without a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, groupby, islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, overload

import numpy as np
import onnxruntime

from ..errors import RebnnError
from . import hub
from .errors import ImageError, ModelFileError, first_sentence
from .image import Image
from .metadata import Metadata
from .preprocess import Prepared

if TYPE_CHECKING:
    from typing_extensions import Self

AHEAD = 4
"""Batches under way for each worker of a stream: with fewer, a worker waits where another one takes longer."""


class _Stopped(NamedTuple):
    """Ends a stream: what the caller's images raised."""

    error: Exception


class LoadedModel:
    """A packed model that is ready to run. Several threads may call it at the same time.

    Attributes:
        name: the file it was loaded from, as given.
        metadata: what the file says about itself.
        session: the ONNX Runtime session.
        kernels: whether those of librebnn prepare images, where they are installed.
        threads: how many the session has.
        source: path or bytes that it is loaded from again where it is copied or unpickled.
        size: as it was given to :func:`rebnn_mm.deploy.load`.
        providers: as they were given there.
    """

    input_types: Mapping[str, str] = {'image': 'tensor(float)', 'valid_size': 'tensor(int64)'}
    inputs: tuple[str, ...] = ('image',)
    outputs: tuple[str, ...] = ()
    opened_by: ClassVar[Callable[..., LoadedModel]]
    """:func:`rebnn_mm.deploy.load`, which knows the classes of all tasks and so puts itself here."""

    def __init__(self, name: str, metadata: Metadata, session: onnxruntime.InferenceSession) -> None:
        self.name = name
        self.metadata = metadata
        self.session = session
        self.kernels = True
        self.source: str | bytes = name
        self.size: tuple[int, int] | None = None
        self.providers: tuple[str, ...] = ()
        self.threads = max(1, session.get_session_options().intra_op_num_threads)
        self._check_interface()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, by label; none if the file does not know them."""
        return self.metadata.classes

    def class_name(self, label: int) -> str:
        """The name of a class; its number if the file does not know names."""
        return self.classes[label] if self.classes else str(label)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles load the file again: a session cannot be copied."""
        return type(self).opened_by, (self.source, self.threads, self.kernels, self.size, self.providers)

    def wrong(self, what: str) -> ModelFileError:
        """The error that names this model's file."""
        return ModelFileError(f'{self.name}: {what}')

    def check_numbers(self, numbers: np.ndarray, rows: int) -> np.ndarray:
        """Check that an output has a finite float32 for each class in each row."""
        (what,), number = self.outputs, len(self.classes) or (numbers.shape or (0,))[-1]
        if numbers.shape != (rows, number) or numbers.dtype != np.float32:
            raise self.wrong(f'it gives {numbers.dtype} {list(numbers.shape)} as the {what} of {number} classes')
        if not np.isfinite(numbers).all():
            raise self.wrong(f'it gives {what} that are not finite numbers')
        return numbers

    @classmethod
    def from_pretrained(cls, name: str | PathLike[str], revision: str | None = None, **options: Any) -> Self:
        """The model of a folder that :meth:`save_pretrained` wrote, or of the hub by ``owner/name``.

        Args:
            name: a folder that exists, else a name on the hub.
            revision: branch, tag or commit on the hub.
            options: ``threads`` and others of :func:`rebnn_mm.deploy.load`.

        Raises:
            ModelFileError: there is none, or it has another task than this class.
        """
        folder, version = Path(name), f'@{revision}' if revision else ''
        model = cls.opened_by(folder / hub.FILE if folder.is_dir() else f'{hub.SCHEME}{name}{version}', **options)
        if not isinstance(model, cls):
            raise model.wrong(f'its task is {model.metadata.task}, so it is a {type(model).__name__}')
        return model

    def save_pretrained(self, folder: str | PathLike[str], card: Mapping[str, Any] | None = None) -> None:
        """Write a folder as the hub takes it, see :func:`rebnn_mm.deploy.hub.save_pretrained`."""
        hub.save_pretrained(self.source, self.metadata, folder, card)

    def push_to_hub(self, repo: str, card: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Upload it to ``owner/name`` of the hub, see :func:`rebnn_mm.deploy.hub.push_to_hub`."""
        return hub.push_to_hub(self.source, self.metadata, repo, card, **options)

    def _check_interface(self) -> None:
        inputs = {entry.name: entry.type for entry in self.session.get_inputs()}
        expected = {name: self.input_types[name] for name in self.inputs}
        if inputs != expected:
            raise self.wrong(f'a {self.metadata.task} model has the inputs {expected}, this one {inputs}')
        for entry in self.session.get_inputs():
            if entry.name == 'image' and len(entry.shape) != 4:
                raise self.wrong(f'its input image has {len(entry.shape)} dimensions instead of 4')
        outputs = {entry.name: entry for entry in self.session.get_outputs()}
        for name in self.outputs:
            if name not in outputs:
                raise self.wrong(f'it has no output {name!r}')
            if not outputs[name].type.startswith('tensor(') or outputs[name].type == 'tensor(string)':
                raise self.wrong(f'its output {name!r} is not a tensor of numbers')
        if self.classes and self.outputs in (('scores',), ('logits',)):
            shape = outputs[self.outputs[0]].shape
            if shape and isinstance(shape[-1], int) and shape[-1] != len(self.classes):
                raise self.wrong(
                    f'it gives the {self.outputs[0]} of {shape[-1]} classes, and names {len(self.classes)}'
                )


class ImageModel(LoadedModel, ABC):
    """A packed model that takes images."""

    @abstractmethod
    def __call__(self, image: Any) -> Any:
        """Run the model on one image, or on each of a list of them."""

    def stream(
        self,
        images: Iterable[Image | ImageError],
        *,
        batch: int = 1,
        workers: int = 1,
        on_error: Literal['raise', 'return'] = 'raise',
        **options: Any,
    ) -> Iterator[Any]:
        """Run the model on images one after another, while the next ones are read and prepared in another thread.

        Args:
            images: any number, taken as they are needed: paths, or arrays such as the frames of a camera; in place of
                one that could not be read its ``ImageError``.
            batch: how many go through the network together, as far as they become equally large.
            workers: how many images or batches are in the network at the same time. For most images in a second load
                the model with one thread and take as many workers as there are processors.
            on_error: at an image that cannot be read or does not suit the model ``'raise'``, after the results of
                those before it, or ``'return'``, which gives its :class:`rebnn_mm.deploy.ImageError` in place of a
                result and goes on.
            options: of the call.

        Yields:
            For each image what the call gives, in their order.

        Raises:
            DeployError: at the image that is not as it should be.
            ValueError: ``batch`` or ``workers`` is below 1, or ``on_error`` is neither.

        Example::

            for path, labels in zip(paths, model.stream(paths, top=1)):
                print(path, labels[0].name)
        """
        if min(batch, workers) < 1:
            raise RebnnError(f'batch and workers must be at least 1, not {batch} and {workers}')
        if on_error not in ('raise', 'return'):
            raise RebnnError(f"on_error must be 'raise' or 'return', not {on_error!r}")
        left = iter(images)

        def attempt(image: Image | ImageError) -> Prepared | ImageError:
            try:
                return image if isinstance(image, ImageError) else self.prepare(image)
            except ImageError as error:
                return error

        def read() -> list[Prepared | ImageError | _Stopped]:
            some: list[Prepared | ImageError | _Stopped] = []
            try:
                some.extend(map(attempt, islice(left, batch)))
            except Exception as error:  # of what gives the images; its turn comes after those before it
                some.append(_Stopped(error))
            return some

        def run(prepared: Future[list[Prepared | ImageError | _Stopped]]) -> list[Any]:
            some = prepared.result()
            results = iter(self._results([one for one in some if isinstance(one, Prepared)], **options))
            return [next(results) if isinstance(one, Prepared) else one for one in some]

        with ThreadPoolExecutor(1, 'rebnn-read') as reader, ThreadPoolExecutor(workers, 'rebnn-run') as runner:

            def begun() -> tuple[Future[list[Prepared | ImageError | _Stopped]], Future[list[Any]]]:
                prepared = reader.submit(read)
                return prepared, runner.submit(run, prepared)

            coming = deque(begun() for _ in range(AHEAD * workers))
            try:
                while results := coming[0][1].result():
                    coming.popleft()
                    coming.append(begun())
                    for result in results:
                        if isinstance(result, _Stopped):
                            raise result.error
                        if isinstance(result, ImageError) and on_error == 'raise':
                            raise result
                        yield result
            finally:
                for future in chain.from_iterable(coming):
                    future.cancel()

    @abstractmethod
    def _result(self, prepared: Prepared, outputs: list[np.ndarray]) -> Any:
        """Turn the graph's outputs for one image into the result of the call."""

    def _results(self, prepared: Sequence[Prepared], **options: Any) -> list[Any]:
        """Turn the outputs of several images into their results."""
        outputs = self.run_several(prepared)
        return [self._result(one, found, **options) for one, found in zip(prepared, outputs, strict=True)]

    def _predict(self, image: Any, **options: Any) -> Any:
        """Predict one image, or those of a list."""
        several = isinstance(image, list | tuple)
        results = self._results([self.prepare(one) for one in (image if several else [image])], **options)
        return results if several else results[0]

    def prepare(self, image: Image) -> Prepared:
        """The tensor that the network gets for an image."""
        assert self.metadata.preprocess is not None
        return self.metadata.preprocess(image, kernels=self.kernels)

    def run(self, prepared: Prepared) -> list[np.ndarray]:
        """The graph's outputs, in the order of ``outputs``."""
        feed: dict[str, np.ndarray] = {'image': prepared.image}
        if 'valid_size' in self.inputs:
            feed['valid_size'] = np.array(prepared.valid_size, np.int64)
        try:
            return self.session.run(list(self.outputs), feed)
        except Exception as error:  # its classes have no common base below Exception
            height, width = prepared.image.shape[2:]
            raise self.wrong(
                f'ONNX Runtime stops at an input of {width} x {height} ({first_sentence(error)})'
            ) from None

    def run_several(self, prepared: Sequence[Prepared]) -> list[list[np.ndarray]]:
        """The graph's outputs for each image; equally large neighbours go through it together, if it takes several."""
        found: list[list[np.ndarray]] = []
        (shape,) = (entry.shape for entry in self.session.get_inputs() if entry.name == 'image')
        takes_several = 'valid_size' not in self.inputs and not isinstance(shape[0], int)
        for _, group in groupby(prepared, key=lambda one: one.image.shape):
            some = list(group)
            if len(some) == 1 or not takes_several:
                found += [self.run(one) for one in some]
                continue
            outputs = self.run(some[0]._replace(image=np.concatenate([one.image for one in some])))
            if any(output.shape[:1] != (len(some),) for output in outputs):
                raise self.wrong(f'its outputs do not begin with the {len(some)} images that it was given')
            found += [[output[i : i + 1] for output in outputs] for i in range(len(some))]
        return found


class RawModel(ImageModel):
    """Gives what the model's head gives.

    Example::

        model = load('segmenter.onnx')
        for name, output in model('street.jpg').items():
            print(name, output.shape)
    """

    def __init__(self, name: str, metadata: Metadata, session: onnxruntime.InferenceSession) -> None:
        self.outputs = metadata.outputs
        super().__init__(name, metadata, session)

    @overload
    def __call__(self, image: Image) -> dict[str, np.ndarray]: ...
    @overload
    def __call__(self, image: list[Any] | tuple[Any, ...]) -> list[dict[str, np.ndarray]]: ...
    def __call__(self, image: Any) -> Any:
        """The graph's outputs by name.

        Args:
            image: in any form of :func:`rebnn_mm.deploy.image.as_image`; or a list of such, for a list of outputs.

        Raises:
            DeployError: the image or the file is not as it should be.
        """
        return self._predict(image)

    def _result(self, prepared: Prepared, outputs: list[np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(self.outputs, outputs, strict=True))
