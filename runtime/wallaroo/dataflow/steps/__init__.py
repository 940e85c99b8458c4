"""The functions of stateless steps: many at a time, tried again, with any number of results."""
