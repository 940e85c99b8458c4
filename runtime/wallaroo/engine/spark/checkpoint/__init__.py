"""The checkpoint of a query on Spark: reading, relocating and repartitioning."""
