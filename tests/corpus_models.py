"""Models that nobody here made: scikit-learn classifiers through skl2onnx, torch exports, models inside wheels.

Each entry builds its model and the inputs to run it on; both are the same every time. What makes them (scikit-learn,
skl2onnx, torch) is imported only when something is built. `python tests/corpus_models.py DIR` writes them to
a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import importlib.util
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx

Feed: TypeAlias = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Built:
    """A model and the inputs that it runs on."""

    model: onnx.ModelProto
    feeds: tuple[Feed, ...]


@dataclass(frozen=True)
class Entry:
    """One model of the corpus: what builds it, how, and how many of the opsets 7 to 28 it must reach at least."""

    name: str
    needs: tuple[str, ...]
    make: Callable[[], Built]
    reaches: int

    def built(self) -> Built:
        """Build the model, once in a session."""
        return _built(self)

    def missing(self) -> list[str]:
        """Name the packages that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


@functools.cache
def _built(entry: Entry) -> Built:
    logging.disable(logging.WARNING)
    try:
        silent = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            warnings.simplefilter("ignore")
            return entry.make()
    finally:
        logging.disable(logging.NOTSET)


# scikit-learn --------------------------------------------------------------------------------------------------------

# name -> module, class, arguments; `estimator` and `estimators` name others of this table.
ESTIMATORS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "sgd": ("linear_model", "SGDClassifier", {"random_state": 0}),
    "gaussian-nb": ("naive_bayes", "GaussianNB", {}),
    "bernoulli-nb": ("naive_bayes", "BernoulliNB", {"binarize": 1.0}),
    "multinomial-nb": ("naive_bayes", "MultinomialNB", {}),
    "complement-nb": ("naive_bayes", "ComplementNB", {}),
    "categorical-nb": ("naive_bayes", "CategoricalNB", {"min_categories": 9}),
    "mlp": ("neural_network", "MLPClassifier", {"random_state": 0, "max_iter": 20, "hidden_layer_sizes": (8,)}),
    "k-neighbours": ("neighbors", "KNeighborsClassifier", {}),
    "radius-neighbours": ("neighbors", "RadiusNeighborsClassifier", {"radius": 9.0}),
    "qda": ("discriminant_analysis", "QuadraticDiscriminantAnalysis", {"reg_param": 0.1}),
    "adaboost": ("ensemble", "AdaBoostClassifier", {"n_estimators": 3, "random_state": 0}),
    "bagging": ("ensemble", "BaggingClassifier", {"n_estimators": 3, "random_state": 0}),
    "stacking": ("ensemble", "StackingClassifier", {"estimators": ("logistic", "gaussian-nb")}),
    "calibrated": ("calibration", "CalibratedClassifierCV", {"estimator": "gaussian-nb"}),
    "one-vs-rest": ("multiclass", "OneVsRestClassifier", {"estimator": "logistic"}),
    "one-vs-one": ("multiclass", "OneVsOneClassifier", {"estimator": "logistic"}),
    "mixture": ("mixture", "GaussianMixture", {"n_components": 3, "random_state": 0}),
    "logistic": ("linear_model", "LogisticRegression", {}),
}

# The estimators at all of skl2onnx's usual opsets; the rest stand for what else the exporter writes.
USUAL = (11, 13, 15, 18, 21)
SKLEARN: dict[str, tuple[int, ...]] = {
    "sgd": USUAL,
    "gaussian-nb": USUAL,
    "bernoulli-nb": USUAL,
    "mlp": USUAL,
    "k-neighbours": USUAL,
    "adaboost": USUAL,
    "bagging": USUAL,
    "multinomial-nb": (9, 13),
    "complement-nb": (11, 18),
    "categorical-nb": (11, 18),
    "radius-neighbours": (11, 15),
    "qda": (13, 18),
    "stacking": (11, 21),
    "calibrated": (11, 15),
    "one-vs-rest": (11, 18),
    "one-vs-one": (11, 13),
    "mixture": (11, 18),
    "logistic": (13,),  # no ArgMax, but it imports the default domain twice
}


def _estimator(name: str) -> Any:
    module, kind, arguments = ESTIMATORS[name]
    made = dict(arguments)
    if "estimator" in made:
        made["estimator"] = _estimator(made["estimator"])
    if "estimators" in made:
        made["estimators"] = [(part, _estimator(part)) for part in made["estimators"]]
    return getattr(importlib.import_module(f"sklearn.{module}"), kind)(**made)


def _sklearn(name: str, opset: int) -> Built:
    table, classes = importlib.import_module("sklearn.datasets").load_iris(return_X_y=True)
    table = np.round(table).astype(np.float32)  # whole numbers: categories for CategoricalNB, and rows that tie
    estimator = _estimator(name).fit(table, classes)
    options = {id(estimator): {"zipmap": False}} if hasattr(estimator, "classes_") else None
    to_onnx = importlib.import_module("skl2onnx").to_onnx
    opsets = {"": opset, "ai.onnx.ml": 1 if opset < 15 else 3}
    model = to_onnx(estimator, table[:1], target_opset=opsets, options=options)
    return Built(model, tuple({"X": rows} for rows in (table, table[50:51], table[::7])))


# torch ---------------------------------------------------------------------------------------------------------------

# A module, the dimensions of its one input that vary, and inputs.
Network: TypeAlias = tuple[Any, dict[int, str], list[Any]]


def _segmenter(torch: Any) -> Network:
    class Segmenter(torch.nn.Module):  # type: ignore[misc]
        """Convolutions, the class of each pixel, and that class as one-hot planes."""

        def __init__(self) -> None:
            super().__init__()
            nn = torch.nn
            self.head = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 5, 1))

        def forward(self, x: Any) -> Any:
            index = self.head(x).argmax(1)
            return torch.nn.functional.one_hot(index, 5).permute(0, 3, 1, 2).float(), index

    return Segmenter(), {0: "n", 2: "h", 3: "w"}, [torch.randn(n, 3, h, w) for n, h, w in ((2, 8, 8), (1, 5, 4))]


def _tagger(torch: Any) -> Network:
    class Tagger(torch.nn.Module):  # type: ignore[misc]
        """Embedding, GRU, softmax, and the likeliest tag of each token with its one-hot row."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(50, 8)
            self.recur = torch.nn.GRU(8, 6, batch_first=True)
            self.score = torch.nn.Linear(6, 4)

        def forward(self, x: Any) -> Any:
            scores = torch.softmax(self.score(self.recur(self.embed(x))[0]), -1)
            tag = scores.argmax(-1)
            return scores, tag, torch.nn.functional.one_hot(tag, 4)

    return Tagger(), {1: "length"}, [torch.randint(0, 50, (2, length)) for length in (6, 1, 11)]


def _codebook(torch: Any) -> Network:
    class Codebook(torch.nn.Module):  # type: ignore[misc]
        """Vector quantisation: the nearest of 16 vectors, fetched by a one-hot matrix, with LayerNorm before it."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(6)
            self.codes = torch.nn.Parameter(torch.randn(16, 6))

        def forward(self, x: Any) -> Any:
            near = 2 * self.norm(x) @ self.codes.t() - self.codes.pow(2).sum(1)
            hot = torch.nn.functional.one_hot(near.argmax(-1), 16).to(x.dtype)
            return hot @ self.codes, hot.mean(0)

    return Codebook(), {0: "n"}, [torch.randn(n, 6) for n in (9, 2, 30)]


NETWORKS: dict[str, Callable[[Any], Network]] = {"segmenter": _segmenter, "tagger": _tagger, "codebook": _codebook}
# name -> the opsets that torch's older exporter (TorchScript) writes, those of the newer one (dynamo)
TORCH: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "segmenter": ((9, 11, 13, 17), (18, 23)),
    "tagger": ((11, 17), ()),  # the newer one writes the length that it saw into a Reshape
    "codebook": ((11, 17), (18, 21)),
}


def _torch(name: str, opset: int, dynamo: bool) -> Built:
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    module, varying, inputs = NETWORKS[name](torch)
    shapes: dict[str, Any]
    if dynamo:
        shapes = {"dynamic_shapes": (dict.fromkeys(varying, torch.export.Dim.DYNAMIC),)}
    else:
        shapes = {"input_names": ["x"], "dynamic_axes": {"x": varying}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            module.eval(), (inputs[0],), path, dynamo=dynamo, opset_version=opset, external_data=False, **shapes
        )
        model = onnx.load(path)
    return Built(model, tuple({"x": tensor.numpy()} for tensor in inputs))


# piper-tts -----------------------------------------------------------------------------------------------------------


def _in_package(package: str, *parts: str) -> onnx.ModelProto:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(package)
    return onnx.load(Path(spec.origin).parent.joinpath(*parts))


def _tashkeel() -> Built:
    """Arabic text without vowels in, the class of each letter's diacritic out (an ArgMax) with its logits."""
    numbers = np.random.default_rng(0)

    def text(batch: int, length: int) -> Feed:
        return {
            "char_inputs": numbers.integers(1, 40, (batch, length)),
            "diac_inputs": numbers.integers(0, 15, (batch, length)),
            "input_lengths": np.full(batch, length),
        }

    return Built(_in_package("piper", "tashkeel", "model.onnx"), (text(1, 24), text(1, 3), text(2, 40)))


def _nakdimon() -> Built:
    """Hebrew letters in, vowel points out: recurrence as Loop bodies. It has none of the three operators."""
    numbers = np.random.default_rng(0)
    feeds = tuple({"input_1": numbers.integers(1, 40, (1, n)).astype(np.float32)} for n in (30, 4))
    return Built(_in_package("piper", "hebrew", "nakdimon.onnx"), feeds)


# Voices and files ----------------------------------------------------------------------------------------------------

# name -> file, the rates of its samples, whether it is told which
SILERO: dict[str, tuple[str, tuple[int, ...], bool]] = {
    "16": ("silero_vad.onnx", (16000, 8000), True),
    "16-half": ("silero_vad_half.onnx", (16000,), False),
    "15": ("silero_vad_16k_op15.onnx", (16000,), True),
    "18": ("silero_vad_op18_ifless.onnx", (16000, 8000), True),
}


def _silero(name: str) -> Built:
    """A piece of sound and what is remembered in, how likely it is a voice out; one way for each rate, under an If."""
    file, rates, told = SILERO[name]
    numbers = np.random.default_rng(0)

    def sound(batch: int, rate: int) -> Feed:
        length = 576 if rate == 16000 else 288  # 32 ms and what came before them
        made: Feed = {
            "input": numbers.uniform(-1, 1, (batch, length)).astype(np.float32),
            "state": numbers.uniform(-1, 1, (2, batch, 128)).astype(np.float32),
        }
        return made | {"sr": np.array(rate)} if told else made

    return Built(_in_package("silero_vad", "data", file), tuple(sound(n, rate) for rate in rates for n in (1, 3)))


def _magika() -> Built:
    """The first and last bytes of files in, their kind out; 256 stands for no byte."""
    numbers = np.random.default_rng(0)
    files = numbers.integers(0, 257, (3, 2048)).astype(np.int32)
    files[1, 900:1800] = 256
    files[2] = numbers.integers(97, 123, 2048)
    model = _in_package("magika", "models", "standard_v3_3", "model.onnx")
    return Built(model, ({"bytes": files}, {"bytes": files[2:]}))


# The corpus ----------------------------------------------------------------------------------------------------------


# name -> how many of the opsets 7 to 28 each of its models must reach
REACHES: dict[str, int] = {
    "sgd": 22,
    "gaussian-nb": 22,
    "bernoulli-nb": 22,
    "multinomial-nb": 22,
    "complement-nb": 22,
    "categorical-nb": 21,
    "mlp": 22,
    "k-neighbours": 20,
    "radius-neighbours": 18,
    "qda": 22,
    "adaboost": 21,
    "bagging": 22,
    "stacking": 20,
    "calibrated": 21,
    "one-vs-rest": 22,
    "one-vs-one": 21,
    "mixture": 22,
    "logistic": 22,
    "segmenter": 22,
    "tagger": 22,
    "codebook": 1,
    "tashkeel": 20,
    "nakdimon": 22,
    "silero": 18,
    "magika": 21,
}


def _entries() -> Iterator[Entry]:
    for name, opsets in SKLEARN.items():
        for opset in opsets:
            make = functools.partial(_sklearn, name, opset)
            yield Entry(f"sklearn-{name}-{opset}", ("sklearn", "skl2onnx"), make, REACHES[name])
    for name, by_exporter in TORCH.items():
        for exporter, dynamo, opsets in zip(("script", "dynamo"), (False, True), by_exporter, strict=True):
            for opset in opsets:
                make = functools.partial(_torch, name, opset, dynamo)
                yield Entry(f"torch-{name}-{exporter}-{opset}", ("torch",), make, REACHES[name])
    yield Entry("piper-tashkeel", ("piper",), _tashkeel, REACHES["tashkeel"])
    yield Entry("piper-nakdimon", ("piper",), _nakdimon, REACHES["nakdimon"])
    for name in SILERO:
        yield Entry(f"silero-{name}", ("silero_vad",), functools.partial(_silero, name), REACHES["silero"])
    yield Entry("magika", ("magika",), _magika, REACHES["magika"])


CORPUS = {entry.name: entry for entry in _entries()}


def main() -> None:
    """Write every model that can be built here to a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, entry in CORPUS.items():
        if not entry.missing():
            onnx.save(entry.built().model, folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
