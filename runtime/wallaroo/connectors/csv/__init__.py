"""Rows of CSV files as sources."""
