"""What Sphinx is told: Markdown by MyST, the theme Furo, and nothing from any network."""

project = "Weft"
html_title = "Weft"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_copy_source = False
myst_heading_anchors = 4
myst_heading_slug_func = "tools.site.pages.anchor"
# Samples show what programs print, which is in no language.
suppress_warnings = ["misc.highlighting_failure"]
