"""The report as one HTML page with inline pictures (SVG): no script, nothing loaded from elsewhere."""
