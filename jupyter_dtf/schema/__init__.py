"""The data exchanged between processes: typed, validated structs that reject unknown keys."""
