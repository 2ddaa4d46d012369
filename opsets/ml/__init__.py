"""ONNX's operators for classical machine learning, one per file: what they mean, and what replaces them."""
