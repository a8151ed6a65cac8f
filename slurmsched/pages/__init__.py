"""Pages that are drawn on the server: templates, styles and SVG, without a script and without another file."""
