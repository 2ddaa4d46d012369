"""The command line: one file a command. Heavy modules are imported only inside a command."""
