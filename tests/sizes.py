"""Models in which inputs of the graph set how large results are, and how long nodes run: one or more for each operator.

`DIRECT` has the operators, `THROUGH` ways from a graph input to a shape.
"""

# ruff: noqa: E501 (graphs)

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """A model as text without its header, at an opset, and the opset to convert it to."""

    name: str
    graph: str
    opset: int
    to: int
    functions: str = ""
    domains: str = ""

    @property
    def text(self) -> str:
        """The model in ONNX's text."""
        return f'<ir_version: 8, opset_import: ["": {self.opset}{self.domains}]> {self.graph} {self.functions}'


def _cases(rows: dict[str, tuple[int, int, str]]) -> list[Case]:
    return [Case(name, f"g {graph}", opset, to) for name, (opset, to, graph) in rows.items()]


def cases(rows: dict[str, str]) -> list[Case]:
    """Return a case for each graph, from opset 13 to 11, where Softmax has another meaning and axes are attributes."""
    return [Case(name, f"g {graph}", 13, 11) for name, graph in rows.items()]


DIRECT = _cases({
    "AffineGrid": (20, 19, "(float[b,2,3] t, int64[4] size) => (float[b,h,w,2] y) { y = AffineGrid(t, size) }"),
    "AffineGrid up": (20, 21, "(float[b,3,4] t, int64[5] size) => (float[b,d,h,w,3] y) { y = AffineGrid(t, size) }"),
    "BlackmanWindow": (17, 16, "(int64 n) => (float[m] y) { y = BlackmanWindow(n) }"),
    "CenterCropPad": (18, 17, "(float[a,b] x, int64[2] s) => (float[c,d] y) { y = CenterCropPad(x, s) }"),
    "Col2Im": (18, 21, "(float[b,c,l] x, int64[2] i, int64[2] k) => (float[b,d,h,w] y) { y = Col2Im(x, i, k) }"),
    "ConstantOfShape": (13, 21, "(int64[n] s) => (float[] y) { y = ConstantOfShape(s) }"),
    "ConstantOfShape down": (13, 9, "(int64[4] s) => (float[a,b,c,d] y) { y = ConstantOfShape(s) }"),
    "DFT length": (17, 20, "(float[b,n,1] x, int64 l) => (float[b,m,2] y) { y = DFT(x, l) }"),
    "DFT axis": (20, 17, "(float[b,n,1] x, int64 l) => (float[b,m,2] y) { y = DFT(x, l) }"),
    "Expand": (13, 8, "(float[a,b] x, int64[2] s) => (float[c,d] y) { y = Expand(x, s) }"),
    "Expand more": (8, 21, "(float[a] x, int64[k] s) => (float[] y) { y = Expand(x, s) }"),
    "HammingWindow": (17, 16, "(int64 n) => (float[m] y) { y = HammingWindow(n) }"),
    "HannWindow": (17, 16, "(int32 n) => (float[m] y) { y = HannWindow(n) }"),
    "Loop": (13, 11, "(int64 n, float[k] x) => (float[k] y) { y = Loop(n, , x) <body = b (int64 i, bool c, float[k] v)"
        " => (bool d, float[k] w) { d = Identity(c) w = Add(v, v) }> }"),
    "Loop scan": (11, 21, "(int64 n, float[k] x) => (float[k] y, float[m,k] z) { y, z = Loop(n, , x) <body = "
        "b (int64 i, bool c, float[k] v) => (bool d, float[k] w, float[k] u)"
        " { d = Identity(c) w = Add(v, v) u = Identity(w) }> }"),
    "Loop growing": (13, 21, "(int64 n, float[k] x) => (float[m] y) { y = Loop(n, , x) <body = "
        "b (int64 i, bool c, float[j] v) => (bool d, float[l] w) { d = Identity(c) w = Concat<axis=0>(v, v) }> }"),
    "Loop condition": (13, 21, "(float[k] x, float limit) => (float[k] y) <int64 many = {4611686018427387904},"
        " bool yes = {1}> { y = Loop(many, yes, x) <body = b (int64 i, bool c, float[k] v)"
        " => (bool d, float[k] w) { one = Constant<value_float = 1.0>() w = Add(v, one)"
        " s = ReduceMax<keepdims=0>(w) d = Less(s, limit) }> }"),
    "MaxUnpool": (11, 22, "(float[1,1,2,2] x, int64[1,1,2,2] i, int64[4] s) => (float[a,b,c,d] y)"
        " { y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i, s) }"),
    "MelWeightMatrix": (17, 21, "(int64 bins, int64 length, int64 rate, float low, float high) => (float[a,b] y)"
        " { y = MelWeightMatrix(bins, length, rate, low, high) }"),
    "NonMaxSuppression": (11, 10, "(float[1,n,4] b, float[1,c,n] s, int64 most) => (int64[k,3] y)"
        " { y = NonMaxSuppression(b, s, most) }"),
    "OneHot": (11, 9, "(int64[a,b] i, int64 depth, float[2] v) => (float[a,b,c] y) { y = OneHot(i, depth, v) }"),
    "OneHot float": (13, 10, "(float[a] i, float depth, float[2] v) => (float[a,c] y) { y = OneHot(i, depth, v) }"),
    "Pad": (13, 21, "(float[a,b] x, int64[4] p) => (float[c,d] y) { y = Pad(x, p) }"),
    "Pad reflect": (11, 18, "(float[a,b] x, int64[4] p) => (float[c,d] y) { y = Pad<mode=\"reflect\">(x, p) }"),
    "Pad axes": (18, 21, "(float[a,b] x, int64[2] p, int64[1] k) => (float[c,d] y) { y = Pad(x, p, , k) }"),
    "Range": (11, 21, "(int64 s, int64 l, int64 d) => (int64[n] y) { y = Range(s, l, d) }"),
    "Range float": (13, 10, "(float s, float l, float d) => (float[n] y) { y = Range(s, l, d) }"),
    "Reshape": (13, 21, "(float[a,b] x, int64[2] s) => (float[c,d] y) { y = Reshape(x, s) }"),
    "Reshape static": (13, 8, "(float[3,4] x, int64[3] s) => (float[c,d,e] y) { y = Reshape(x, s) }"),
    "Resize scales": (11, 13, "(float[1,1,a,b] x, float[0] r, float[4] s) => (float[c,d,e,f] y)"
        " { y = Resize<mode=\"nearest\">(x, r, s) }"),
    "Resize sizes": (13, 19, "(float[1,1,a,b] x, int64[4] s) => (float[c,d,e,f] y)"
        " { y = Resize<mode=\"linear\">(x, , , s) }"),
    "Resize 10": (10, 13, "(float[1,1,a,b] x, float[4] s) => (float[c,d,e,f] y) { y = Resize(x, s) }"),
    "STFT": (17, 21, "(float[1,n,1] x, int64 step, int64 length) => (float[1,f,b,2] y) { y = STFT(x, step, , length) }"),
    "Split": (13, 18, "(float[n] x, int64[2] s) => (float[a] y, float[b] z) { y, z = Split(x, s) }"),
    "SplitToSequence": (11, 21, "(float[n,m] x, int64[k] s) => (float[a,b] y) <int64 z = {0}>"
        " { q = SplitToSequence(x, s) y = SequenceAt(q, z) }"),
    "SplitToSequence scalar": (11, 21, "(float[n,m] x, int64 s) => (float[a,b] y)"
        " { q = SplitToSequence(x, s) y = ConcatFromSequence<axis=0>(q) }"),
    "Tile": (13, 21, "(float[a,b] x, int64[2] r) => (float[c,d] y) { y = Tile(x, r) }"),
    "Tile down": (13, 8, "(float[a,b,c,d,e] x, int64[5] r) => (float[f,g_,h,i,j] y) { y = Tile(x, r) }"),
    "TopK": (11, 10, "(float[a,b] x, int64[1] k) => (float[a,c] y, int64[a,c] i) { y, i = TopK(x, k) }"),
    "Upsample": (9, 10, "(float[1,1,a,b] x, float[4] s) => (float[c,d,e,f] y) { y = Upsample(x, s) }"),
    "EyeLike": (9, 22, "(int64[2] s) => (float[a,b] y) { z = ConstantOfShape(s) y = EyeLike(z) }"),
    "RandomNormalLike": (13, 21, "(int64[k] s) => (int64[n] y)"
        " { z = ConstantOfShape(s) w = RandomNormalLike(z) y = Shape(w) }"),
    "RandomUniformLike": (13, 21, "(int64[6] s) => (int64[n] y)"
        " { z = ConstantOfShape(s) w = RandomUniformLike(z) y = Shape(w) }"),
    "Slice": (10, 9, "(float[n,m] x, int64[2] s, int64[2] e) => (float[a,b] y) { y = Slice(x, s, e) }"),
    "Trilu": (14, 13, "(float[n,m] x, int64 k) => (float[n,m] y) { y = Trilu(x, k) }"),
    "Hardmax of a shape": (13, 11, "(int64[2] s) => (float[a,b] y) { z = ConstantOfShape(s) y = Hardmax(z) }"),
    "Unsqueeze": (13, 11, "(int64[2] s) => (float[] y) <int64[1] u = {0}>"
        " { z = ConstantOfShape(s) y = Unsqueeze(z, u) }"),
})  # fmt: skip

_MAKE = "(int64[n] s) => (float[] y)"

THROUGH = [
    *_cases({
        f"{name} {opset} to {to}": (opset, to, graph)
        for opset, to in ((13, 21), (13, 11))
        for name, graph in {
            "Cast": "(float[n] s) => (float[] y) { t = Cast<to=7>(s) y = ConstantOfShape(t) }",
            "Mul": "(int64[n] s) => (float[] y) <int64 c = {1000}> { t = Mul(s, c) y = ConstantOfShape(t) }",
            "Mul by itself": "(int64[n] s) => (float[] y) { t = Mul(s, s) u = Mul(t, t) y = ConstantOfShape(u) }",
            "Add": "(int64[n] s) => (float[] y) <int64 c = {100}> { t = Add(s, c) y = ConstantOfShape(t) }",
            "Sub": "(int64[n] s) => (float[] y) <int64 c = {100000}> { t = Sub(c, s) y = ConstantOfShape(t) }",
            "Pow": "(int64[n] s) => (float[] y) <int64 c = {10}> { t = Pow(s, c) y = ConstantOfShape(t) }",
            "Concat": "(int64[n] s, int64[m] r) => (float[] y) { t = Concat<axis=0>(s, r, s) y = ConstantOfShape(t) }",
            "Gather": "(int64[n] s, int64[m] i) => (float[] y) { t = Gather(s, i) y = ConstantOfShape(t) }",
            "Identity": f"{_MAKE} {{ t = Identity(s) u = Identity(t) y = ConstantOfShape(u) }}",
            "Tile": f"{_MAKE} <int64[1] r = {{3}}> {{ t = Tile(s, r) y = ConstantOfShape(t) }}",
            "Exp": "(float[n] s) => (float[] y) { t = Exp(s) u = Cast<to=7>(t) y = ConstantOfShape(u) }",
            "ReduceProd": "(int64[n] s) => (float[m] y) { t = ReduceProd<keepdims=1>(s) y = ConstantOfShape(t) }",
            "Shape of a shape": f"{_MAKE} {{ t = ConstantOfShape(s) u = Shape(t) v = Concat<axis=0>(u, u)"
            " y = ConstantOfShape(v) }",
            "If": "(bool b, int64[n] s) => (float[] y) { y = If(b) <then_branch = t () => (float[] p)"
            " { p = ConstantOfShape(s) }, else_branch = e () => (float[] q)"
            " { w = Concat<axis=0>(s, s) q = ConstantOfShape(w) }> }",
            "Loop": "(int64[n] s) => (float[] y) <int64 two = {2}> { y = Loop(two, , s) <body = b (int64 i, bool c,"
            " int64[n] v) => (bool d, int64[n] w, float[] u) { d = Identity(c) w = Add(v, v)"
            " u = ConstantOfShape(w) }> }".replace("{ y = Loop", "{ z, y = Loop"),
            "Scan": "(int64[k,2] s) => (int64[k] y) { y = Scan<num_scan_inputs = 1, body = b (int64[2] v)"
            " => (int64 w) { u = ConstantOfShape(v) w = Size(u) }>(s) }",
            "Where": "(bool b, int64[n] s, int64[n] r) => (float[] y) { t = Where(b, s, r) y = ConstantOfShape(t) }",
            "many dims": "(int64[30] s) => (float[] y) { y = ConstantOfShape(s) }",
            "Range of a Range": "(int64 n) => (int64[m] y) <int64 o = {0}, int64 e = {1}> { r = Range(o, n, e)"
            " t = ReduceSum<keepdims=0>(r) y = Range(o, t, e) }",
        }.items()
    }),
    *(
        Case(
            f"function 13 to {to}",
            "g (int64[n] s) => (float[] y) { y = f.Make(s) }",
            13,
            to,
            '<domain: "f", opset_import: ["": 13]> Make (s) => (y) { t = Add(s, s) y = ConstantOfShape(t) }',
            ', "f": 1',
        )
        for to in (11, 21)
    ),
]  # fmt: skip

BOMBS = [
    Case(
        f"{kind} {opset} to {to}",
        graph,
        opset,
        to,
    )
    for opset, to in ((11, 13), (13, 21))
    for kind, graph in {
        "40 doublings": "g (float[n] x0) => (float[m] x40) {"
        + "".join(f" x{at + 1} = Concat<axis=0>(x{at}, x{at})" for at in range(40))
        + "}",
        "40 doublings of a constant": "g (float[2] x0) => (float[m] y) <float[2] c0 = {1, 2}> {"
        + "".join(f" c{at + 1} = Concat<axis=0>(c{at}, c{at})" for at in range(40))
        + " y = Add(c40, c40) }",
        "40 doublings of a shape": "g (float[2] x) => (int64[m] y) { c0 = Shape(x)"
        + "".join(f" c{at + 1} = Concat<axis=0>(c{at}, c{at})" for at in range(40))
        + " y = Identity(c40) }",
        "Range": "g (int64 x) => (int64[m] y) <int64 o = {0}, int64 e = {1}, int64 l = {1000000000000}>"
        " { r = Range(o, l, e) y = Add(r, x) }",
        "Range as a shape": "g (float[n] x) => (float[] y) <int64 o = {0}, int64 e = {1}, int64 l = {1000000000000}>"
        " { r = Range(o, l, e) y = Reshape(x, r) }",
        "Loop": "g (float[n] x) => (float[n] y) <int64 turns = {4611686018427387904}> { y = Loop(turns, , x) <body ="
        " b (int64 i, bool c, float[n] v) => (bool d, float[n] w) { d = Identity(c) w = Hardmax(v) }> }",
        "ConstantOfShape": "g (float x) => (float[a,b] y) <int64[2] s = {1000000, 1000000}>"
        " { z = ConstantOfShape(s) y = Add(z, x) }",
        "Expand": "g (float[n] x) => (float[a,b,c] y) <int64[3] s = {1000000, 1000000, 1}> { y = Expand(x, s) }",
        "Tile": "g (float[n] x) => (float[a] y) <int64[1] s = {1000000000000}> { y = Tile(x, s) }",
    }.items()
]
_SAMPLES = "RoiAlign<output_height=1, output_width=1, sampling_ratio={}>"
_REGION = "<float[1,1,2,2] x = {1, 2, 3, 4}, float[1,4] r = {0, 0, 1, 1}, int64[1] b = {0}>"
BOMBS += [
    # Of these an oracle computes nodes, in a verification or where constants are folded.
    Case(
        "Expand of bfloat16",
        "g (bfloat16[1] x) => (bfloat16[n] y) <int64[1] s = {2000000000}> { y = Expand(x, s) }",
        13,
        17,
    ),
    *(
        Case(f"RoiAlign of {points} points, {how}", graph.replace("RoiAlign", _SAMPLES.format(points)), 22, 16)
        for points in (20000, 1000000)
        for how, graph in {
            "run": "g (float[1,1,2,2] x, float[1,4] r, int64[1] b) => (float[1,1,1,1] y) { y = RoiAlign(x, r, b) }",
            "folded": f"g (float[1] z) => (float[1,1,1,1] y) {_REGION} {{ q = RoiAlign(x, r, b) y = Add(q, z) }}",
        }.items()
    ),
    Case(
        "Einsum of many operands",
        "g (float[1] z) => (float[1] y) <int64[1] n = {1024}> { v = ConstantOfShape(n)"
        ' q = Einsum<equation = "a,b,c,d,e,f,g->">(v, v, v, v, v, v, v) y = Add(q, z) }',
        22,
        17,
    ),
    Case(
        "MaxPool of a wide window",
        "g (float[1] z) => (float[a,b,c,d] y) <float[1,1,2,2] x = {1, 2, 3, 4}> { q = MaxPool<kernel_shape = [30000, 30000],"
        " pads = [29999, 29999, 29999, 29999], strides = [30000, 30000]>(x) y = Add(q, z) }",
        22,
        11,
    ),
    Case(
        "ConvInteger with wide pads",
        "g (int32[1] z) => (int32[a,b,c,d] y) <uint8[1,1,2,2] x = {1, 2, 3, 4}> { q = ConvInteger<pads = [20000, 20000, 20000,"
        " 20000], strides = [20000, 20000]>(x, x) y = Add(q, z) }",
        22,
        13,
    ),
]
