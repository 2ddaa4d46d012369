"""Run onnx's native code in a child process with limits."""
