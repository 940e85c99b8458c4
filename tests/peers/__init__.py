"""Examples that other systems publish, written anew: they must give the published results."""
