"""Implement the command line: one file for each command. Heavy modules are imported only inside a command."""
