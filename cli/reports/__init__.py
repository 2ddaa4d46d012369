"""Write reports of a run: tables, HTML, Markdown and JSON."""
