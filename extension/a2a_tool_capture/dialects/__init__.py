"""The dialects (`dialect.Dialect`), each a module with `DIALECT` in it. Nothing imports them by name."""
