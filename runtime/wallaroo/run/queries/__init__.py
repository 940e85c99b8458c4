"""SQL on the states of an application: entities as tables of Arrow, queried by DuckDB."""
