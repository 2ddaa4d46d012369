"""onnxruntime's own operators, one per file: what they mean, and what replaces them."""
