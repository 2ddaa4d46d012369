"""RNN, GRU and LSTM from the text, in double."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from differential.values import Array

Step = Callable[..., tuple[Array, Array]]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x: np.logaddexp(0, x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tanh": np.tanh,
}


@dataclass(frozen=True)
class Weights:
    """What one direction has: matrices of all gates, the two biases, and peepholes."""

    w: Array
    r: Array
    wb: Array
    rb: Array
    p: Array


def _run(
    step: Step,
    gates: int,
    defaults: Sequence[str],
    x: Array,
    w: Array,
    r: Array,
    b: Array | None,
    lengths: Array | None,
    h: Array | None,
    c: Array | None,
    p: Array | None,
    direction: str = "forward",
    layout: int = 0,
    activations: Sequence[str] | None = None,
    **options: Any,
) -> tuple[Array, Array, Array]:
    """Run all directions; return Y, Y_h and Y_c."""
    for name in ("hidden_size", "activation_alpha", "activation_beta"):
        options.pop(name, None)
    kind, hidden = x.dtype, r.shape[-1]
    x, w, r = (each.astype(np.float64) for each in (x, w, r))
    if layout:
        x = x.swapaxes(0, 1)
        h, c = (None if each is None else each.swapaxes(0, 1) for each in (h, c))
    count, (length, batch) = len(w), x.shape[:2]
    lengths = np.full(batch, length) if lengths is None else lengths
    h, c = (np.zeros((count, batch, hidden)) if each is None else each.astype(np.float64) for each in (h, c))
    b = np.zeros((count, 2 * gates * hidden)) if b is None else b.astype(np.float64)
    p = np.zeros((count, 3 * hidden)) if p is None else p.astype(np.float64)
    names = list(activations or [*defaults] * count)
    each_direction = ["forward", "reverse"] if direction == "bidirectional" else [direction]
    y = np.zeros((length, count, batch, hidden))
    last_h, last_c = h.copy(), c.copy()
    for at, way in enumerate(each_direction):
        wb, rb = np.split(b[at], 2)
        own = Weights(w[at], r[at], wb, rb, p[at])
        functions = [ACTIVATIONS[name] for name in names[at * len(defaults) : (at + 1) * len(defaults)]]
        for row in range(batch):
            state, cell = h[at, row], c[at, row]
            times = range(int(lengths[row]))
            for time in times if way == "forward" else reversed(times):
                state, cell = step(own, functions, x[time, row], state, cell, **options)
                y[time, at, row] = state
            last_h[at, row], last_c[at, row] = state, cell
    found = [y, last_h, last_c]
    if layout:
        found = [y.transpose(2, 0, 1, 3), last_h.swapaxes(0, 1), last_c.swapaxes(0, 1)]
    return tuple(each.astype(kind) for each in found)  # type: ignore[return-value]


def _clipped(value: Array, clip: float | None) -> Array:
    return value if clip is None else np.clip(value, -clip, clip)


def _rnn(own: Weights, f: Any, x: Array, h: Array, c: Array, clip: float | None = None) -> tuple[Array, Array]:
    """RNN-22: "Ht = f(Xt*(Wi^T) + Ht-1*(Ri^T) + Wbi + Rbi)"."""
    return f[0](_clipped(own.w @ x + own.r @ h + own.wb + own.rb, clip)), c


def _gru(
    own: Weights, f: Any, x: Array, h: Array, c: Array, clip: float | None = None, linear_before_reset: int = 0
) -> tuple[Array, Array]:
    """GRU-22: "Ht = (1 - zt) (.) ht + zt (.) Ht-1"."""
    (wz, wr, wh), (rz, rr, rh) = np.split(own.w, 3), np.split(own.r, 3)
    (wbz, wbr, wbh), (rbz, rbr, rbh) = np.split(own.wb, 3), np.split(own.rb, 3)
    z = f[0](_clipped(wz @ x + rz @ h + wbz + rbz, clip))
    r = f[0](_clipped(wr @ x + rr @ h + wbr + rbr, clip))
    inner = wh @ x + r * (rh @ h + rbh) + wbh if linear_before_reset else wh @ x + rh @ (r * h) + rbh + wbh
    return (1 - z) * f[1](_clipped(inner, clip)) + z * h, c


def _lstm(
    own: Weights, f: Any, x: Array, h: Array, c: Array, clip: float | None = None, input_forget: int = 0
) -> tuple[Array, Array]:
    """LSTM-22: "Ct = ft (.) Ct-1 + it (.) ct", "Ht = ot (.) h(Ct)"."""
    if clip is not None:
        raise NotImplementedError("onnxruntime 1.32.0 clips other sums")
    i, o, forget, cell = np.split(own.w @ x + own.r @ h + own.wb + own.rb, 4)
    pi, po, pf = np.split(own.p, 3)
    i = f[0](i + pi * c)
    forget = 1 - i if input_forget else f[0](forget + pf * c)
    new = forget * c + i * f[1](cell)
    return f[0](o + po * new) * f[2](new), new


def rnn(x: Array, w: Array, r: Array, b: Any = None, lengths: Any = None, h: Any = None, **options: Any) -> Any:
    """Y and Y_h."""
    return _run(_rnn, 1, ["Tanh"], x, w, r, b, lengths, h, None, None, **_named(options, 1, r))[:2]


def _named(options: dict[str, Any], least: int, r: Array) -> dict[str, Any]:
    """Leave out activations that are a default of another number of directions."""
    given = options.get("activations")
    if given is not None and len(given) != least * len(r):
        return {key: value for key, value in options.items() if key != "activations"}
    return options


def gru(x: Array, w: Array, r: Array, b: Any = None, lengths: Any = None, h: Any = None, **options: Any) -> Any:
    """Y and Y_h."""
    return _run(_gru, 3, ["Sigmoid", "Tanh"], x, w, r, b, lengths, h, None, None, **options)[:2]


def lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    c: Any = None,
    p: Any = None,
    **options: Any,
) -> Any:
    """Y, Y_h and Y_c."""
    return _run(_lstm, 4, ["Sigmoid", "Tanh", "Tanh"], x, w, r, b, lengths, h, c, p, **options)
