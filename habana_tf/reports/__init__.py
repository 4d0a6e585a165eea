"""How the package shows what it knows: characters, units, tables, and the base that all reports have."""
