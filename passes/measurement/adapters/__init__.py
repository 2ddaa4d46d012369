"""Adapters: how a runtime runs a model. Each module has NAME, OPSET, `version` and `run`; see docs/measure.md."""
