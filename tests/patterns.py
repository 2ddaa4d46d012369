"""Real models' patterns that run on few of all inputs: dims that must agree, divide or suffice, computed shapes."""

# ruff: noqa: E501 (graphs)

from __future__ import annotations

from sizes import Case, cases

PATTERNS: list[Case] = cases({
    # --- computed shapes ---
    "reshape by gathered dims": "(float[b,s,12] x) => (float[b,s,h,d] y) <int64 i0 = {0}, int64 i1 = {1}, int64[1] z = {0},"
        " int64[2] hd = {3, 4}> { sh = Shape(x) b0 = Gather<axis=0>(sh, i0) s0 = Gather<axis=0>(sh, i1)"
        " b1 = Unsqueeze(b0, z) s1 = Unsqueeze(s0, z) t = Concat<axis=0>(b1, s1, hd) r = Reshape(x, t)"
        " y = Softmax<axis=-1>(r) }",
    "reshape to constants": "(float[n,k] x) => (float[m,3,4] y) <int64[3] t = {-1, 3, 4}> { r = Reshape(x, t)"
        " y = Softmax<axis=-1>(r) }",
    "reshape to a fixed batch": "(float[n,5,7] x) => (float[2,35] y) <int64[2] t = {2, 35}> { r = Reshape(x, t)"
        " y = Softmax<axis=-1>(r) }",
    "reshape of a fixed total": "(float[h,w] x) => (float[768] y) <int64[1] t = {768}> { r = Reshape(x, t)"
        " y = Softmax<axis=-1>(r) }",
    "flatten by a product": "(float[b,c,h,w] x) => (float[b,k] y) <int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2},"
        " int64[1] i3 = {3}> { sh = Shape(x) b0 = Gather(sh, i0) c0 = Gather(sh, i1) h0 = Gather(sh, i2)"
        " w0 = Gather(sh, i3) p = Mul(c0, h0) q = Mul(p, w0) t = Concat<axis=0>(b0, q) r = Reshape(x, t)"
        " y = Hardmax(r) }",
    "reshape by another input's shape": "(float[a,b] x, float[c,d,e] z) => (float[c,d,e] y) { t = Shape(z)"
        " r = Reshape(x, t) y = Hardmax(r) }",
    "reshape by a run-time shape": "(float[n,m] x, int64[3] t) => (float[] y) { r = Reshape(x, t) y = Hardmax(r) }",
    "reshape of a fixed tensor by a run-time shape": "(float[4,6] x, int64[3] t) => (float[] y) { r = Reshape(x, t)"
        " y = Hardmax(r) }",
    "reshape by a run-time part": "(float[24] x, int64[1] k) => (float[] y) <int64[1] f = {4}> { t = Concat<axis=0>(k, f)"
        " r = Reshape(x, t) y = Hardmax(r) }",
    "reshape by halves": "(float[b,n] x) => (float[b,2,m] y) <int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] two = {2}> {"
        " sh = Shape(x) b0 = Gather(sh, i0) n0 = Gather(sh, i1) h = Div(n0, two) t = Concat<axis=0>(b0, two, h)"
        " r = Reshape(x, t) y = Hardmax(r) }",
    "tile with computed repeats": "(float[b,1,d] x, float[b,s,d] z) => (float[b,s,d] y) <int64[1] i1 = {1},"
        " int64[1] one = {1}> { sh = Shape(z) s0 = Gather(sh, i1) t = Concat<axis=0>(one, s0, one) r = Tile(x, t)"
        " u = Add(r, z) y = Hardmax(u) }",
    "expand with a computed shape": "(float[1,d] x, float[s,d] z) => (float[s,d] y) { t = Shape(z) r = Expand(x, t)"
        " u = Mul(r, z) y = Hardmax(u) }",
    "expand by a run-time shape": "(float[a,b] x, int64[3] t) => (float[] y) { r = Expand(x, t) y = Hardmax(r) }",
    # --- attention ---
    "attention with a past": "(float[b,2,s,4] q, float[b,2,s,4] k, float[b,2,s,4] v, float[b,2,p,4] pk, float[b,2,p,4] pv,"
        " float[b,1,s,t] mask) => (float[b,2,s,4] y, float[b,2,t,4] ok, float[b,2,t,4] ov) {"
        " ok = Concat<axis=2>(pk, k) ov = Concat<axis=2>(pv, v) kt = Transpose<perm=[0,1,3,2]>(ok) m = MatMul(q, kt)"
        " a = Add(m, mask) p = Softmax<axis=-1>(a) y = MatMul(p, ov) }",
    "attention mask of another name": "(float[b,s,8] x, float[b,p,8] past, int64[b,total] mask) => (float[b,s,u] y)"
        " <float low = {-10000.0}, float one = {1.0}, int64[1] ax = {1}> { k = Concat<axis=1>(past, x)"
        " kt = Transpose<perm=[0,2,1]>(k) m = MatMul(x, kt) f = Cast<to=1>(mask) g = Sub(one, f) h = Mul(g, low)"
        " e = Unsqueeze(h, ax) a = Add(m, e) y = Softmax<axis=-1>(a) }",
    "caches with unnamed dims": "(float[?,2,?,4] k, float[?,2,?,4] pk, float[?,2,?,4] v, float[?,2,?,4] pv) =>"
        " (float[b,2,t,4] a, float[b,2,t,4] c) { a = Concat<axis=2>(pk, k) d = Concat<axis=2>(pv, v) e = Add(a, d)"
        " c = Softmax<axis=-1>(e) }",
    "many layers of caches": "(" + ", ".join(
            f"float[batch,2,past_{at},4] k{at}, float[batch_{at},2,seq_{at},4] n{at}" for at in range(6)
        ) + ") => (float[b,2,t,4] y) {" + " ".join(f"c{at} = Concat<axis=2>(k{at}, n{at})" for at in range(6))
        + " s = Sum(c0, c1, c2, c3, c4, c5) y = Softmax<axis=-1>(s) }",
    "positions from a past": "(int64[b,s] ids, float[b,p,4] past, float[32,4] table) => (float[b,s,4] y)"
        " <int64 i1 = {1}, int64 one = {1}> { sh = Shape(past) p0 = Gather(sh, i1) si = Shape(ids) s0 = Gather(si, i1)"
        " t = Add(p0, s0) r = Range(p0, t, one) e = Gather(table, r) w = Gather(table, ids) u = Add(e, w)"
        " y = Softmax<axis=-1>(u) }",
    # --- images ---
    "windows": "(float[b,h,w,3] x) => (float[n,49,3] y) <int64[6] z = {0,0,0,0,0,0}, int64[1] i0 = {0}, int64[1] i1 = {1},"
        " int64[1] i2 = {2}, int64[1] seven = {7}, int64[1] c = {3}, int64[3] t2 = {-1, 49, 3}> { sh = Shape(x)"
        " b0 = Gather(sh, i0) h0 = Gather(sh, i1) w0 = Gather(sh, i2) h1 = Div(h0, seven) w1 = Div(w0, seven)"
        " t = Concat<axis=0>(b0, h1, seven, w1, seven, c) r = Reshape(x, t) p = Transpose<perm=[0,1,3,2,4,5]>(r)"
        " q = Reshape(p, t2) y = Softmax<axis=-1>(q) }",
    "space to depth": "(float[b,3,h,w] x) => (float[b,12,i,j] y) { s = SpaceToDepth<blocksize=2>(x) y = Hardmax<axis=1>(s) }",
    "space to depth by 4": "(float[b,c,h,w] x) => (float[b,d,i,j] y) { s = SpaceToDepth<blocksize=4>(x)"
        " y = Hardmax<axis=1>(s) }",
    "depth to space": "(float[b,c,h,w] x) => (float[b,d,i,j] y) { s = DepthToSpace<blocksize=2>(x) y = Hardmax<axis=1>(s) }",
    "pixel shuffle by reshapes": "(float[b,c,h,w] x) => (float[b,d,e] y) <int64[1] i0 = {0}, int64[4] f = {-1, 2, 2, 4}> {"
        " sh = Shape(x) b0 = Gather(sh, i0) t = Concat<axis=0>(b0, f) r = Reshape(x, t)"
        " p = Transpose<perm=[0,1,3,2,4]>(r) u = Reshape(p, v) y = Hardmax<axis=1>(u) }".replace(
            "int64[4] f", "int64[3] v = {0, -1, 4}, int64[4] f"),
    "a large kernel": "(float[b,3,h,w] x, float[4,3,11,11] k) => (float[b,4,i,j] y) { c = Conv(x, k)"
        " y = Hardmax<axis=1>(c) }",
    "strides that must meet": "(float[b,3,h,w] x, float[4,3,3,3] k, float[4,4,2,2] u) => (float[b,4,i,j] y) {"
        " c = Conv<pads=[1,1,1,1], strides=[2,2]>(x, k) d = ConvTranspose<strides=[2,2]>(c, u)"
        " e = Conv<pads=[1,1,1,1]>(x, k) s = Add(d, e) y = Softmax<axis=1>(s) }",
    "five strides of a unet": "(float[b,3,h,w] x, float[3,3,2,2] k) => (float[b,6,h,w] y) { a = Conv<strides=[2,2]>(x, k)"
        " c = Conv<strides=[2,2]>(a, k) d = Conv<strides=[2,2]>(c, k) e = Conv<strides=[2,2]>(d, k)"
        " f = ConvTranspose<strides=[2,2]>(e, k) g1 = ConvTranspose<strides=[2,2]>(f, k)"
        " h1 = ConvTranspose<strides=[2,2]>(g1, k) i = ConvTranspose<strides=[2,2]>(h1, k) j = Concat<axis=1>(i, x)"
        " y = Softmax<axis=1>(j) }",
    "fixed anchors": "(float[b,3,h,w] x, float[5,3,8,8] k) => (float[b,m,4] y) <float[20,4] anchors = {" + ", ".join(["1.0"] * 80)
        + "}, int64[3] t = {0, -1, 4}> { c = Conv<strides=[8,8]>(x, k) d = Reshape(c, t) e = Add(d, anchors)"
        " y = Softmax<axis=-1>(e) }",
    "fixed positions": "(float[b,n,4] x, float[b,1,4] cls) => (float[b,17,4] y) <float[1,17,4] pos = {" + ", ".join(["0.5"] * 68)
        + "}> { c = Concat<axis=1>(cls, x) d = Add(c, pos) y = Softmax<axis=-1>(d) }",
    "resize to another input": "(float[b,3,h,w] x, float[b,3,i,j] z) => (float[b,6,i,j] y) { t = Shape(z)"
        " r = Resize<mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\">(x, , , t)"
        " c = Concat<axis=1>(r, z) y = Softmax<axis=1>(c) }",
    # --- detection ---
    "boxes": "(float[1,n,4] boxes, float[1,c,n] scores) => (int64[k,3] y, float[k,4] z) <int64 most = {10}, float iou = {0.5},"
        " int64[1] i2 = {2}, int64[1] ax = {0}, int64[1] one = {1}> { y = NonMaxSuppression(boxes, scores, most, iou)"
        " i = Gather<axis=1>(y, i2) j = Squeeze(i, one) s = Squeeze(boxes, ax) g1 = Gather(s, j) z = Softmax(g1) }",
    "a large k": "(float[b,n] x) => (float[b,100] v, int64[b,100] i) <int64[1] k = {100}> { h = Softmax(x) v, i = TopK(h, k) }",
    "a fixed index": "(float[b,n] x) => (float[b] y) <int64 i = {40}> { h = Softmax(x) y = Gather<axis=1>(h, i) }",
    "fixed indices of two dims": "(float[n,m] x) => (float[k] y) <int64[2,2] i = {0, 19, 23, 2}> { h = Softmax(x)"
        " y = GatherND(h, i) }",
    "split of fixed sizes": "(float[b,n] x) => (float[b,5] y, float[b,7] z) <int64[2] s = {5, 7}> { h = Softmax(x)"
        " y, z = Split<axis=1>(h, s) }",
    "scatter into fixed places": "(float[n] x) => (float[n] y) <int64[2] i = {3, 30}, float[2] u = {1, 2}> { h = Softmax(x)"
        " y = ScatterElements<axis=0>(h, i, u) }",
    # --- sequences ---
    "lengths of an lstm": "(float[s,b,3] x, int32[b] lens, float[1,8,3] w, float[1,8,2] r) => (float[s,1,b,2] y) {"
        " h = Softmax(x) y = LSTM<hidden_size=2>(h, w, r, , lens) }",
    "lengths of a gru of unnamed dims": "(float[?,?,3] x, int32[?] lens, float[1,6,3] w, float[1,6,2] r, float[1,?,2] h0)"
        " => (float[s,1,b,2] y) { h = Softmax(x) y = GRU<hidden_size=2>(h, w, r, , lens, h0) }",
    "trip count": "(int64 n, float[k] x) => (float[k] y) { y = Loop(n, , x) <body = b (int64 i, bool c, float[k] v)"
        " => (bool d, float[k] w) { d = Identity(c) w = Softmax(v) }> }",
    "steps of a sequence": "(float[s,k] x, float[k] h0) => (float[k] y) <int64 i0 = {0}> { sh = Shape(x)"
        " n = Gather(sh, i0) y = Loop(n, , h0) <body = b (int64 i, bool c, float[k] v) => (bool d, float[k] w) {"
        " d = Identity(c) e = Gather(x, i) f = Add(e, v) w = Softmax(f) }> }",
    "reversed sequences": "(float[s,b] x, int64[b] lens) => (float[s,b] y) { h = Softmax(x)"
        " y = ReverseSequence(h, lens) }",
    "scan of two": "(float[s,k] x, float[t,k] z, float[k] h0) => (float[k] y, float[s,k] u) { y, u = Scan<num_scan_inputs=2,"
        " body = b (float[k] h, float[k] a, float[k] c) => (float[k] o, float[k] p) { q = Add(a, c) r = Add(q, h)"
        " o = Softmax(r) p = Identity(o) }>(h0, x, z) }",
    "greedy ctc": "(float[t,b,5] x) => (int64[t,b] y, float[t,b] z) { h = LogSoftmax<axis=-1>(x)"
        " y = ArgMax<axis=-1, keepdims=0>(h) z = ReduceMax<axes=[2], keepdims=0>(h) }",
    # --- dims of the same and of other names ---
    "two names for one dim": "(float[n,k] x, float[m,k] z) => (float[n,k] y) { s = Add(x, z) y = Softmax(s) }",
    "a product of two names": "(float[a,b] x, float[c,d] z) => (float[a,d] y) { s = MatMul(x, z) y = Softmax(s) }",
    "a mask over heads": "(float[b,4,s,s] x, bool[bm,1,sm,tm] m) => (float[b,4,s,s] y) <float low = {-1e4}> {"
        " w = Where(m, x, low) y = Softmax<axis=-1>(w) }",
    "an einsum": "(float[b,i,j] x, float[b,j,l] z) => (float[b,i,l] y) { e = Einsum<equation=\"bij,bjl->bil\">(x, z)"
        " y = Softmax<axis=-1>(e) }",
    "groups of channels": "(float[b,c,h,w] x) => (float[b,c,h,w] y) <int64[3] t = {0, 32, -1}> { r = Reshape(x, t)"
        " n = Softmax<axis=-1>(r) sh = Shape(x) y = Reshape(n, sh) }",
    "heads of a multiple": "(float[b,s,d] x) => (float[b,12,s,e] y) <int64[4] t = {0, 0, 12, -1}> { r = Reshape(x, t)"
        " p = Transpose<perm=[0,2,1,3]>(r) y = Softmax<axis=-1>(p) }",
    "patches": "(float[b,3,h,w] x) => (float[b,n,m] y) <int64[6] t = {0, 3, -1, 16, 14, 16}, int64[3] u = {0, 196, -1}> {"
        " r = Reshape(x, t) p = Transpose<perm=[0,2,4,3,5,1]>(r) q = Reshape(p, u) y = Softmax<axis=-1>(q) }",
    "a fixed image": "(float[b,3,h,w] x) => (float[b,5] y) <int64[2] t = {-1, 588}> { f = Reshape(x, t)"
        " g1 = ReduceSum<keepdims=1>(f) y = Softmax<axis=-1>(f) }",
    "a pooled vector into a matrix": "(float[b,c,h,w] x, float[12,5] k) => (float[b,5] y) { p = GlobalAveragePool(x)"
        " f = Flatten(p) m = MatMul(f, k) y = Softmax(m) }",
    "a flat image into a matrix": "(float[b,3,h,w] x, float[4,3,3,3] k, float[144,5] m) => (float[b,5] y) {"
        " c = Conv<pads=[1,1,1,1]>(x, k) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c) f = Flatten(p)"
        " z = MatMul(f, m) y = Softmax(z) }",
})  # fmt: skip
