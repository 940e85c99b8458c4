"""The graph of an application, and how it is drawn."""
