"""ONNX Runtime Web's WebGPU provider in a headless Chromium, without nodes that fall back to the CPU.

It needs the npm package onnxruntime-web, as the adapter of that name does, playwright, and a Chromium of the system.
SwiftShader computes on the CPU what a GPU would, but for float16.
"""

from __future__ import annotations

import functools
import os
import shutil
import threading
from collections.abc import Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opshift.passes.measurement.adapters import onnxruntime_web

NAME = "webgpu"
OPSET = 21

FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
)
START = """
window.started = import('/ort.webgpu.min.mjs').then(ort => {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = '/';
  ort.env.logLevel = 'fatal';
  return ort;
});
"""
RUN = f"""
async asked => {{
  {onnxruntime_web.RUN}
  const ort = await window.started;
  const options = {{executionProviders: ['webgpu'], extra: {{session: {{disable_cpu_ep_fallback: '1'}}}}}};
  try {{ return await run(ort, options, asked); }}
  catch (error) {{ return String(error); }}
}}
"""


def version() -> str:
    """Return the installed version of ONNX Runtime Web.

    Raises:
        ImportError: the package, playwright or Chromium is missing.
    """
    import playwright  # noqa: F401

    _chromium()
    return onnxruntime_web.version()


def run(model: bytes, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outputs by name.

    Raises:
        ValueError: it refuses the model.
    """
    page = _page()
    try:
        answer = page.evaluate(RUN, onnxruntime_web.request(model, inputs))
    except Exception:  # the page is gone: the next model needs another process
        os._exit(1)
    return onnxruntime_web.outputs(answer)


def _chromium() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise ImportError("Chromium is not installed")
    return found


@functools.cache
def _page() -> Any:
    """Open a page that has loaded ONNX Runtime Web."""
    from playwright.sync_api import sync_playwright

    files = Path(onnxruntime_web.node("require.resolve('onnxruntime-web')")).parent
    # A page that may use a GPU comes from this machine, or encrypted.
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(SimpleHTTPRequestHandler, directory=files))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = sync_playwright().start().chromium.launch(executable_path=_chromium(), args=FLAGS).new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}/")
    page.evaluate(START)
    return page
