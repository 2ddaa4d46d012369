"""Run models in runtimes through adapters. Each module has NAME, OPSET, `version` and `run`; see docs/measure.md."""
