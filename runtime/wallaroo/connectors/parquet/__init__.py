"""Parquet: outputs as files of rows."""
