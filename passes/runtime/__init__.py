"""Run models in ONNX Runtime, in a child process with limits."""
