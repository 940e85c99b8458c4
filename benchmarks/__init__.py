"""How fast it is, beside bare Python doing the same work in the same run: `make bench`."""
