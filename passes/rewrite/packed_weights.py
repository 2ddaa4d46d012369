"""Fold the emitted nodes that depend only on packed weights, so that no run computes them.

Nodes that unpack weights become constants. If DequantizeLinear reads blocks of numbers of a few bits, the constants are
as large as before; otherwise they are floats.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import Facts, array_of, constant, facts_of_tensor, tensor_of
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.operator import Lifted, lift, operator_for
from opshift.passes.analysis.inference import infer
from opshift.passes.analysis.known_values import is_constant
from opshift.passes.analysis.scopes import Scope, default_opset, view
from opshift.passes.graph.editing import replace_nodes
from opshift.passes.graph.traversal import names_read

MOST = 2**30
"""The maximum bytes of constants that are created in one model: protobuf's limit is twice that."""

NOTICED = 1.25
"""The growth factor above which a note is added: omitted zero points alone cause little growth."""

_FEW_BITS: Mapping[int, int] = {TensorProto.UINT4: 4, TensorProto.INT4: 4, TensorProto.UINT2: 2, TensorProto.INT2: 2}

Array = np.ndarray[Any, Any]
Whole = Callable[[TensorProto], TensorProto]
"""Returns a tensor with its elements loaded, also from an external file."""


@dataclass(frozen=True)
class PackedWeights:
    """The packed weights of a model before its nodes are lowered."""

    names: frozenset[str]
    kept: frozenset[str]
    """The names of values whose nodes stay, because the original has them."""
    whole: Whole
    """Reads the elements of constants."""

    @classmethod
    def of(cls, model: onnx.ModelProto, whole: Whole) -> PackedWeights:
        """Collect the packed weights that nodes of the main graph read."""
        read = ((node, place) for node in model.graph.node for place in traits_of(node).packed_weights)
        names = frozenset(node.input[place] for node, place in read if any(node.input[place : place + 1]))
        kept = (name for node in model.graph.node for name in node.output) if names else ()
        return cls(names, frozenset((*kept, *(value.name for value in model.graph.output))), whole)

    def compute(self, model: onnx.ModelProto) -> tuple[str, ...]:
        """Replace nodes of the lowered model by constants; return notes on the model's growth in bytes."""
        weights = _Weights(model, self.names, self.kept)
        wanted = weights.wanted()
        before, after = weights.sizes(wanted)
        if after > MOST:
            return (f"Packed weights are unpacked in each run: as constants they would have {after:,} bytes.",)
        if wanted:
            weights.replace(wanted, self.whole)
        more = after > before * NOTICED
        return (f"Packed weights became constants: {before:,} bytes became {after:,}.",) if more else ()


@dataclass
class _Weights:
    """The values of the main graph that follow from constants, and their nodes."""

    model: onnx.ModelProto
    packed: Collection[str]
    kept: Collection[str]
    constants: dict[str, TensorProto] = field(default_factory=dict)
    facts: dict[str, Facts | None] = field(default_factory=dict)
    made: dict[str, onnx.NodeProto] = field(default_factory=dict)
    derived: set[str] = field(default_factory=set)
    """The packed weights, and the values computed from them."""

    def __post_init__(self) -> None:
        """Walk over the nodes."""
        graph, inputs = self.model.graph, {value.name for value in self.model.graph.input}
        self.constants.update({one.name: one for one in graph.initializer if one.name not in inputs})
        for node in graph.node:
            held = [one.t for one in node.attribute if one.name == "value"] if is_constant(node) else ()
            self.constants.update(dict.fromkeys(node.output, held[0]) if held else {})
        self.facts.update({name: facts_of_tensor(tensor) for name, tensor in self.constants.items()})
        self.derived.update(self.constants.keys() & set(self.packed))
        for node in graph.node if self.derived else ():
            if (facts := self._computed(node)) is not None:
                self.facts[node.output[0]], self.made[node.output[0]] = facts, node
                if not self.derived.isdisjoint(node.input):
                    self.derived.add(node.output[0])

    def _computed(self, node: onnx.NodeProto) -> Facts | None:
        """Return the facts about a node's output if it reads only constants; otherwise None."""
        if len(node.output) != 1 or node.output[0] in self.kept or not node.input:
            return None
        if traits_of(node).marks_quantization or not all(name in self.facts for name in node.input if name):
            return None
        typed = view(node, Scope(self.facts), default_opset(self.model.opset_import) or 1)
        operator = operator_for(typed.domain, typed.name)
        found = Reason("") if operator is None or typed.domain else infer(typed)
        return None if isinstance(found, Reason) or found[0].size is None or not found[0].dtype else found[0]

    def wanted(self) -> tuple[str, ...]:
        """Return the values to fold: inputs of remaining nodes that are computed from the weights."""
        found: dict[str, None] = {}
        for node in self.model.graph.node:
            if self.made.keys().isdisjoint(node.output) and not self.derived.isdisjoint(node.input):
                found.update(dict.fromkeys(name for name in node.input if name in self.made))
        return tuple(found)

    def sizes(self, wanted: Sequence[str]) -> tuple[int, int]:
        """Return the bytes of the constants that these values depend on, and of the values."""
        return sum(map(self._size, self._sources(wanted))), sum(map(self._size, wanted))

    def _sources(self, wanted: Sequence[str]) -> set[str]:
        sources, waiting = set[str](), [*wanted]
        while waiting:
            name = waiting.pop()
            if name in self.made:
                waiting += filter(None, self.made[name].input)
            else:
                sources.add(name)
        return sources

    def _size(self, name: str) -> int:
        facts = self.facts.get(name) or Facts()
        dtype = facts.dtype or TensorProto.FLOAT
        bits = _FEW_BITS.get(dtype) or 8 * onnx.helper.tensor_dtype_to_np_dtype(dtype).itemsize
        return math.ceil((facts.size or 0) * bits / 8)

    def replace(self, wanted: Sequence[str], whole: Whole) -> None:
        """Replace the nodes of these values by initializers, and remove the unused nodes."""
        graph, sources = self.model.graph, self._sources(wanted)
        for name in wanted:
            graph.initializer.append(tensor_of(self._array(name, whole), 0, name))
        reads = Counter(name for node in graph.node for name in names_read(node))
        nodes = []
        for node in reversed(graph.node):
            name = node.output[0] if node.output else ""
            if name in wanted or (name in self.made and not reads[name]) or (name in sources and not reads[name]):
                reads.subtract(node.input)
            else:
                nodes.append(node)
        replace_nodes(graph, reversed(nodes))
        outputs = {value.name for value in graph.output}
        for place in range(len(graph.initializer) - 1, -1, -1):
            name = graph.initializer[place].name
            if name in sources and not reads[name] and name not in outputs:
                del graph.initializer[place]

    def _array(self, name: str, whole: Whole) -> Array:
        """Return the elements of a value, computed by the oracles of its nodes."""
        if name not in self.made:
            return array_of(whole(self.constants[name]))
        node = self.made[name]
        constants = {one: constant(self._array(one, whole)) for one in node.input if one}
        typed = view(node, Scope(dict(constants)), default_opset(self.model.opset_import) or 1)
        operator = operator_for(typed.domain, typed.name)
        lifted = None if operator is None else lift(operator, typed, "runtime")
        if not isinstance(lifted, Lifted):
            raise AssertionError(f"{node.op_type} was computed of constants, and has no meaning: {lifted}")
        arrays = [None if facts is None else facts.known for facts in lifted.operands]
        return np.asarray(lifted.operator.oracle(lifted.meaning, *arrays))
