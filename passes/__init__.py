"""The steps of a conversion: load, describe, plan, lower, set the opset imports, verify, save."""
