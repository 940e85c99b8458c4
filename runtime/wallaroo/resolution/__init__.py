"""From what an application declares to its normal form, or to all the problems that it has."""
