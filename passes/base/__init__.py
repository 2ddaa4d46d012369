"""Plain results and limits that every other layer may use."""
