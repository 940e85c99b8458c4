"""Kafka to Kafka: this runtime, a loop on confluent-kafka and Quix Streams, on a real broker."""
