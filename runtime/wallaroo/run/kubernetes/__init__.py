"""What a driver and the commands need of Kubernetes."""
