"""Nodes of ai.onnx.ml with attributes drawn at random, as tests/test_ml_operators.py converts and compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
NUMBERS = (np.float32, np.float64, np.int64, np.int32)


@dataclass(frozen=True)
class Drawn:
    """A node: its attributes, the arrays that it is fed, and the types of its outputs.

    `exact` says that nothing is rounded, `units` how many units of the largest result the rounding may be.
    """

    name: str
    attributes: Mapping[str, Any]
    arrays: tuple[Array, ...]
    makes: tuple[Any, ...] = (np.float32,)
    version: int = 3
    exact: bool = False
    units: int = 64
    symbolic: bool = False
    opset: int = 17

    @property
    def model(self) -> onnx.ModelProto:
        """A model of this node; its dimensions are known but for the first one if it is `symbolic`."""
        inputs = [
            helper.make_tensor_value_info(
                f"x{place}",
                _type(one.dtype),
                ["n", *one.shape[1:]] if self.symbolic and one.ndim == 2 else one.shape,
            )
            for place, one in enumerate(self.arrays)
        ]
        outputs = [helper.make_tensor_value_info(f"y{place}", _type(one), None) for place, one in enumerate(self.makes)]
        names = [one.name for one in inputs], [one.name for one in outputs]
        node = helper.make_node(self.name, *names, domain=ML, name="node", **self.attributes)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(ML, self.version)]
        graph = helper.make_graph([node], "g", inputs, outputs)
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    @property
    def tolerance(self) -> int:
        """The units; near a half, PROBIT takes the root of what cancels out, which has half the digits."""
        return 2**13 if self.attributes.get("post_transform") == "PROBIT" else self.units

    @property
    def feeds(self) -> dict[str, Array]:
        """The arrays by the names of the inputs."""
        return {f"x{place}": one for place, one in enumerate(self.arrays)}

    def __str__(self) -> str:
        """The node, as text."""
        return onnx.printer.to_text(self.model.graph.node[0])


def _type(dtype: Any) -> int:
    known = np.dtype(dtype)
    return onnx.TensorProto.STRING if known.kind == "O" else int(helper.np_dtype_to_tensor_dtype(known))


def _pick(rng: Rng, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def floats(rng: Rng, *shape: int) -> list[float]:
    """Floats around zero, some of them zero."""
    drawn = rng.normal(0, 1, shape) * (rng.random(shape) > 0.1)
    return [float(one) for one in drawn.astype(np.float32).reshape(-1)]


def features(rng: Rng, dtype: Any, *shape: int) -> Array:
    """Rows of features of a type, with ties and zeros among them."""
    drawn = rng.normal(0, 2, shape)
    if np.dtype(dtype).kind == "i" or rng.random() < 0.3:
        drawn = np.rint(drawn)
    return drawn.astype(dtype)


def batch(rng: Rng, width: int) -> tuple[int, ...]:
    """The shape of features: a matrix, at times without rows, or a vector."""
    shape: tuple[int, ...] = _pick(rng, ((5, width), (5, width), (1, width), (0, width), (width,)))
    return shape


def linear_regressor(rng: Rng) -> Drawn:
    width, targets = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    attributes: dict[str, Any] = {"coefficients": floats(rng, targets, width), "targets": targets}
    if rng.random() < 0.6:
        attributes["intercepts"] = floats(rng, targets)
    attributes["post_transform"] = _pick(rng, TRANSFORMS)
    return Drawn("LinearRegressor", attributes, (features(rng, _pick(rng, NUMBERS), *batch(rng, width)),), version=1)


def linear_classifier(rng: Rng) -> Drawn:
    width, scores = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    labels = max(scores, int(rng.integers(1, 4)))
    attributes = {
        "coefficients": floats(rng, scores, width),
        "intercepts": floats(rng, scores),
        "post_transform": _pick(rng, TRANSFORMS[:4] if scores == 1 and labels == 2 else TRANSFORMS),
        **labelled(rng, labels, "classlabels_ints"),
    }
    return Drawn(
        "LinearClassifier",
        attributes,
        (features(rng, _pick(rng, NUMBERS), *batch(rng, width)),),
        _labels(attributes),
        version=1,
    )


def labelled(rng: Rng, count: int, integers: str) -> dict[str, Any]:
    """Labels of so many classes, as integers or as strings."""
    if rng.random() < 0.3:
        return {"classlabels_strings": [f"class {place}" for place in range(count)]}
    return {integers: [int(one) for one in rng.permutation(20)[:count]]}


def _labels(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    return (object if "classlabels_strings" in attributes else np.int64), np.float32


def normalizer(rng: Rng) -> Drawn:
    shape = batch(rng, int(rng.integers(1, 5)))
    x = features(rng, _pick(rng, NUMBERS), *shape)
    return Drawn(
        "Normalizer",
        {"norm": _pick(rng, ("MAX", "L1", "L2"))},
        (x * (rng.random((*shape[:-1], 1)) > 0.2).astype(x.dtype),),
    )


def scaler(rng: Rng) -> Drawn:
    width = int(rng.integers(1, 5))
    count = _pick(rng, (1, width))
    attributes = {"offset": floats(rng, count), "scale": floats(rng, count)}
    return Drawn("Scaler", attributes, (features(rng, _pick(rng, NUMBERS), *batch(rng, width)),))


def imputer(rng: Rng) -> Drawn:
    width, dtype = int(rng.integers(1, 5)), _pick(rng, (np.float32, np.int64))
    count = _pick(rng, (1, width))
    x = features(rng, dtype, *batch(rng, width))
    if dtype is np.int64:
        given = [int(one) for one in rng.integers(-9, 9, count)]
        return Drawn(
            "Imputer",
            {"imputed_value_int64s": given, "replaced_value_int64": int(rng.integers(-2, 3))},
            (x,),
            (dtype,),
            exact=True,
        )
    gone = _pick(rng, (float("nan"), 0.0, 1.0, float("inf")))
    x = np.where(rng.random(x.shape) < 0.3, np.float32(_pick(rng, (gone, float("nan")))), x)
    return Drawn(
        "Imputer", {"imputed_value_floats": floats(rng, count), "replaced_value_float": gone}, (x,), exact=True
    )


def binarizer(rng: Rng) -> Drawn:
    x = features(rng, _pick(rng, NUMBERS), *batch(rng, 3))
    return Drawn("Binarizer", {"threshold": _pick(rng, (0.0, 0.5, -1.0, 1.0))}, (x,), (x.dtype,), exact=True)


def array_feature_extractor(rng: Rng) -> Drawn:
    shape = _pick(rng, ((5, 4), (4,), (2, 3, 4), (0, 4)))
    indices = rng.integers(0, 4, _pick(rng, ((1,), (3,), (1, 2), (2, 2))))
    x = features(rng, _pick(rng, NUMBERS), *shape)
    return Drawn("ArrayFeatureExtractor", {}, (x, indices), (x.dtype,), exact=True)


def feature_vectorizer(rng: Rng) -> Drawn:
    widths, dtype, rows = (
        rng.integers(1, 4, int(rng.integers(1, 4))).tolist(),
        _pick(rng, NUMBERS),
        _pick(rng, (0, 1, 4)),
    )
    arrays = tuple(features(rng, dtype, rows, width) for width in widths)
    return Drawn("FeatureVectorizer", {"inputdimensions": widths}, arrays, exact=True)


def one_hot_encoder(rng: Rng) -> Drawn:
    shape = batch(rng, 3)
    if rng.random() < 0.3:
        x = np.array([_pick(rng, "abcd") for _ in range(int(np.prod(shape)))], object).reshape(shape)
        return Drawn("OneHotEncoder", {"cats_strings": ["c", "a", "b"]}, (x,), exact=True, opset=19)
    categories = [int(one) for one in rng.permutation(np.arange(-3, 4))[: int(rng.integers(1, 6))]]
    return Drawn(
        "OneHotEncoder", {"cats_int64s": categories}, (features(rng, _pick(rng, NUMBERS), *shape),), exact=True
    )


def label_encoder(rng: Rng) -> Drawn:
    count, version = int(rng.integers(1, 6)), _pick(rng, (2, 3, 4))
    kinds: dict[str, Callable[[], list[Any]]] = {
        "int64s": lambda: [int(one) for one in rng.integers(-3, 4, count)],
        "floats": lambda: [float(one) for one in rng.integers(-3, 4, count)],
        "strings": lambda: [_pick(rng, "abcde") for _ in range(count)],
    }
    key, value = _pick(
        rng,
        (
            ("int64s", "int64s"),
            ("int64s", "floats"),
            ("floats", "int64s"),
            ("floats", "floats"),
            ("int64s", "strings"),
            ("strings", "int64s"),
        ),
    )
    keys = list(dict.fromkeys(kinds[key]()))
    if key == "floats" and rng.random() < 0.3:
        keys[0] = float("nan")
    attributes: dict[str, Any] = {f"keys_{key}": keys, f"values_{value}": kinds[value]()[: len(keys)]}
    if rng.random() < 0.5:
        defaults: dict[str, dict[str, Any]] = {
            "int64s": {"default_int64": 7},
            "floats": {"default_float": 7.5},
            "strings": {"default_string": "?"},
        }
        attributes |= defaults[value]
    shape = batch(rng, 3)
    if key == "strings":
        x: Array = np.array([_pick(rng, "abcdef") for _ in range(int(np.prod(shape)))], object).reshape(shape)
    else:
        x = rng.integers(-4, 5, shape).astype(np.int64 if key == "int64s" else np.float32)
        if key == "floats":
            x = np.where(rng.random(shape) < 0.2, np.float32("nan"), x)
    made = {"int64s": np.int64, "floats": np.float32, "strings": object}[value]
    return Drawn("LabelEncoder", attributes, (x,), (made,), version=version, exact=True, opset=19)


def category_mapper(rng: Rng) -> Drawn:
    count = int(rng.integers(1, 6))
    integers = rng.integers(-3, 6, count)
    strings = rng.choice(WORDS, count)
    attributes: dict[str, Any] = {"cats_int64s": integers.tolist(), "cats_strings": strings.tolist()}
    if rng.random() < 0.5:
        attributes |= {"default_int64": -9, "default_string": "none"}
    shape = tuple(int(size) for size in rng.integers(1, 4, int(rng.integers(1, 4))))
    if rng.random() < 0.5:
        x = rng.choice([*WORDS, "other"], shape).astype(object)
        return Drawn("CategoryMapper", attributes, (x,), (np.int64,), version=1, exact=True, opset=19)
    x = rng.integers(-4, 7, shape)
    return Drawn("CategoryMapper", attributes, (x,), (object,), version=1, exact=True, opset=19)


WORDS = ("a", "b", "c", "ab")

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(rng: Rng, width: int, depth: int) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Draw trees, as the attributes of nodes of the versions 1 and 3; and the leaves."""
    count = int(rng.integers(1, 5))
    modes = _pick(rng, (("BRANCH_LEQ",), ("BRANCH_LT",), ("BRANCH_GT",), MODES))
    lists: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "tracks")
    }
    leaves = []

    def grow(tree: int, level: int) -> int:
        place: int = sum(one == tree for one in lists["treeids"])
        leaf = level == depth or rng.random() < 0.2
        row = [tree, place, 0, "LEAF", 0.0, 0, 0, 0]
        if leaf:
            leaves.append((tree, place))
        else:
            value = float(np.rint(rng.normal(0, 2)) if rng.random() < 0.7 else np.float32(rng.normal()))
            row[2:5] = [int(rng.integers(width)), _pick(rng, modes), value]
            row[7] = int(rng.random() < 0.5)
        at: int = len(lists["treeids"])
        for values, one in zip(lists.values(), row, strict=True):
            values.append(one)
        if not leaf:
            lists["truenodeids"][at] = grow(tree, level + 1)
            lists["falsenodeids"][at] = grow(tree, level + 1)
        return place

    for tree in range(count):
        grow(tree, 0)
    attributes = {f"nodes_{name}": values for name, values in lists.items() if name != "tracks"}
    if rng.random() < 0.4:
        attributes["nodes_missing_value_tracks_true"] = lists["tracks"]
    return attributes, leaves


def with_nan(rng: Rng, x: Array) -> Array:
    """Put some NaN among floats."""
    return np.where(rng.random(x.shape) < 0.1, x.dtype.type("nan"), x) if x.dtype.kind == "f" else x


def tree_ensemble_regressor(rng: Rng) -> Drawn:
    width, targets = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    attributes, leaves = forest(rng, width, int(rng.integers(0, 5)))
    every = rng.random() < 0.7
    listed = [
        (tree, node, target)
        for tree, node in leaves
        for target in range(targets)
        if every or rng.random() < 0.6 or (tree, node, target) == (*leaves[0], 0)
    ]
    attributes |= {
        "n_targets": targets,
        "target_treeids": [one[0] for one in listed],
        "target_nodeids": [one[1] for one in listed],
        "target_ids": [one[2] for one in listed],
        "target_weights": floats(rng, len(listed)),
        "aggregate_function": _pick(rng, ("SUM", "AVERAGE", "MIN", "MAX")),
        "post_transform": _pick(rng, ("NONE", "NONE", *TRANSFORMS)),
    }
    if rng.random() < 0.5:
        attributes["base_values"] = floats(rng, targets)
    x = with_nan(rng, features(rng, _pick(rng, NUMBERS[:2]), *batch(rng, width)))
    return Drawn("TreeEnsembleRegressor", attributes, (np.atleast_2d(x),), version=_pick(rng, (1, 3)))


def tree_ensemble_classifier(rng: Rng) -> Drawn:
    width, classes = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    attributes, leaves = forest(rng, width, int(rng.integers(0, 5)))
    weighed = [one for one in range(classes) if classes == 1 or rng.random() < 0.6] or [int(rng.integers(classes))]
    weights = np.array(floats(rng, len(leaves) * len(weighed)))
    if rng.random() < 0.5:
        weights = np.abs(weights)
    labels = labelled(rng, classes, "classlabels_int64s")
    if classes == 1:
        labels = {"classlabels_int64s": [5]}
    both = classes == 2 and weighed[-1] == 0
    attributes |= {
        "class_treeids": [tree for tree, _ in leaves for _ in weighed],
        "class_nodeids": [node for _, node in leaves for _ in weighed],
        "class_ids": [one for _ in leaves for one in weighed],
        "class_weights": weights.tolist(),
        "post_transform": _pick(rng, ("NONE", "NONE", *TRANSFORMS[: 4 if both else 5])),
        **labels,
    }
    if rng.random() < 0.4:
        attributes["base_values"] = floats(rng, _pick(rng, (1, 2)) if classes == 2 else classes)
    x = with_nan(rng, features(rng, _pick(rng, NUMBERS), *batch(rng, width)))
    version = _pick(rng, (1, 3))
    return Drawn("TreeEnsembleClassifier", attributes, (np.atleast_2d(x),), _labels(attributes), version=version)


def tree_ensemble(rng: Rng) -> Drawn:
    """Draw inner nodes and leaves in lists of their own."""
    width, targets, dtype = int(rng.integers(1, 4)), int(rng.integers(1, 4)), _pick(rng, (np.float32, np.float64))
    modes = _pick(rng, ((0,), (1,), (3,), tuple(range(6))))
    inner: list[list[Any]] = []
    leaves: list[int] = []

    def grow(level: int) -> tuple[int, int]:
        if level and (level == 4 or rng.random() < 0.3):
            leaves.append(int(rng.integers(targets)))
            return len(leaves) - 1, 1
        at, mode = len(inner), int(_pick(rng, modes))
        inner.append([int(rng.integers(width)), mode, float(np.rint(rng.normal(0, 2))), int(rng.random() < 0.5)])
        ends = [grow(level + 1), grow(level + 1)]
        inner[at] += [ends[0][0], ends[0][1], ends[1][0], ends[1][1]]
        return at, 0

    roots = [grow(0)[0] for _ in range(int(rng.integers(1, 4)))]
    kind, columns = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(zip(*inner, strict=True))
    attributes: dict[str, Any] = {
        "tree_roots": roots,
        "nodes_featureids": list(columns[0]),
        "nodes_modes": helper.make_tensor("m", onnx.TensorProto.UINT8, [len(inner)], list(columns[1])),
        "nodes_splits": helper.make_tensor("s", kind, [len(inner)], list(columns[2])),
        "nodes_truenodeids": list(columns[4]),
        "nodes_trueleafs": list(columns[5]),
        "nodes_falsenodeids": list(columns[6]),
        "nodes_falseleafs": list(columns[7]),
        "leaf_targetids": leaves,
        "leaf_weights": helper.make_tensor("w", kind, [len(leaves)], floats(rng, len(leaves))),
        "n_targets": targets,
        "aggregate_function": int(rng.integers(4)),
        "post_transform": int(_pick(rng, (0, 0, 1, 2, 3))),
    }
    if rng.random() < 0.5:
        attributes["nodes_missing_value_tracks_true"] = list(columns[3])
    x = np.atleast_2d(with_nan(rng, features(rng, dtype, *batch(rng, width))))
    return Drawn("TreeEnsemble", attributes, (x,), (dtype,), version=5)


def support_kernel(rng: Rng) -> dict[str, Any]:
    kind = _pick(rng, ("LINEAR", "POLY", "RBF", "SIGMOID"))
    degree = float(_pick(rng, (1, 2, 3)))
    return {"kernel_type": kind, "kernel_params": [*floats(rng, 2), degree]}


def svm_regressor(rng: Rng) -> Drawn:
    width, vectors = int(rng.integers(1, 4)), int(rng.integers(0, 5))
    attributes: dict[str, Any] = {
        **support_kernel(rng),
        "coefficients": floats(rng, vectors or width),
        "n_supports": vectors,
        "one_class": int(rng.integers(2)),
        "rho": floats(rng, 1),
    }
    if vectors:
        attributes["support_vectors"] = floats(rng, vectors, width)
    dtype = _pick(rng, (np.float32, *NUMBERS))
    return Drawn("SVMRegressor", attributes, (features(rng, dtype, *batch(rng, width)),), version=1)


def svm_classifier(rng: Rng) -> Drawn:
    width, classes, in_pairs = int(rng.integers(1, 4)), int(rng.integers(2, 5)), bool(rng.random() < 0.7)
    per_class = rng.integers(1, 4, classes).tolist()
    count = sum(per_class)
    attributes: dict[str, Any] = {
        **support_kernel(rng),
        "coefficients": floats(rng, classes - 1, count) if in_pairs else floats(rng, classes, width),
        "rho": floats(rng, classes * (classes - 1) // 2),
        "post_transform": _pick(rng, TRANSFORMS[: 4 if in_pairs and classes == 2 else 5]),
        **labelled(rng, classes, "classlabels_ints"),
    }
    if in_pairs:
        attributes |= {"support_vectors": floats(rng, count, width), "vectors_per_class": per_class}
    elif rng.random() < 0.5:
        attributes["coefficients"] = np.abs(attributes["coefficients"]).tolist()
    x = features(rng, _pick(rng, NUMBERS), *batch(rng, width))
    return Drawn("SVMClassifier", attributes, (x,), _labels(attributes), version=1, units=2**10)


DRAWN: Mapping[str, Callable[[Rng], Drawn]] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "CategoryMapper": category_mapper,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
    "Scaler": scaler,
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_ensemble_classifier,
    "TreeEnsembleRegressor": tree_ensemble_regressor,
}
"""What draws a node of each operator."""
