"""Databases: outputs as rows of tables."""
