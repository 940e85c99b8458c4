"""Loading applications: their source code as of one moment, and what it declares."""
