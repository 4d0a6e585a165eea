"""The documentation site: what `make site` puts together for MkDocs, and the checks of what comes out.

    python -m tests.documentation stage build/site-pages    # docs/ and the generated pages, as MkDocs reads them
    python -m tests.documentation check build/site          # the built pages ask no other machine for anything

`stage` copies and mends links, `api`, `tables` and `messages` make pages from the sources, `check` reads the result.
`op_pages` writes the tables of ops in docs/ anew.
"""
