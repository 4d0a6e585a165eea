"""The table of overloads: one module per family, each row an overload of ATen with its lowering."""
