"""Reports of a run: tables, pages, Markdown and JSON."""
