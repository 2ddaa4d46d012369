"""Names of the operators that opshift itself writes into any model, or that hold the graphs of one."""

CONSTANT = "Constant"
IDENTITY = "Identity"
CAST = "Cast"
IF = "If"
LOOP = "Loop"
SCAN = "Scan"
