"""The checkpoint of a query on Spark: read, moved, cut anew, filled."""
