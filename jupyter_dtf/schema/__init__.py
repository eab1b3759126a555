"""What crosses a boundary between processes: typed, validated structs that refuse unknown keys."""
