"""How sphinx makes the site of this folder; `python docs/build_site.py` runs it, with the pages that are generated."""

from __future__ import annotations

import opshift

project = "opshift"
version = release = opshift.__version__
author = "the authors of opshift"
project_copyright = "the authors of opshift; Apache License 2.0"
html_title = f"opshift {version}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["drawing.css", "site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    # The theme's own stacks start with fonts of the system; nothing is fetched.
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#8dbdf2", "color-brand-content": "#8dbdf2"},
}

# Links to headings are checked: an anchor that is not there is a warning, and warnings are errors.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "deflist"]

# Docstrings are prose with Markdown's single backticks.
default_role = "literal"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
maximum_signature_line_length = 90
python_use_unqualified_type_names = True
add_module_names = False
