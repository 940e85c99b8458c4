"""The state directory of an application: its contents, their checks, export and import."""
