"""Split BatchNormalization in training into its two computations."""

from __future__ import annotations

import onnx


def trained_apart(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which a node before each training BatchNormalization computes mean and variance.

    Kernels compute x * scale + (bias - mean * scale), or scale the difference from the mean. Only the former rounds the
    product, which is invisible if x and its mean move together.
    """
    graph = onnx.GraphProto()
    for node in model.graph.node:
        attributes = {one.name: one for one in node.attribute}
        if node.op_type != "BatchNormalization" or node.domain or not attributes.get("training_mode", _NO).i:
            graph.node.append(node)
            continue
        statistics, normalized, rest = (onnx.NodeProto.FromString(node.SerializeToString()) for _ in range(3))
        mean, variance = (f"{node.output[0]}/{name} of the batch" for name in ("mean", "variance"))
        statistics.output[:] = ["", mean, variance]
        _set(statistics, momentum=0.0)
        normalized.input[3:] = [mean, variance]
        del normalized.output[1:]
        _set(normalized, training_mode=0)
        rest.output[0] = ""
        graph.node.extend([statistics, normalized, *([rest] if any(rest.output) else [])])
    if len(graph.node) == len(model.graph.node):
        return model
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    opened.graph.ClearField("node")
    opened.graph.node.extend(graph.node)
    return opened


_NO = onnx.AttributeProto()


def _set(node: onnx.NodeProto, **values: float) -> None:
    """Set attributes of a node, replacing existing ones."""
    kept = [one for one in node.attribute if one.name not in values]
    del node.attribute[:]
    node.attribute.extend([*kept, *(onnx.helper.make_attribute(name, value) for name, value in values.items())])
