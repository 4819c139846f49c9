"""What the brain holds to be true: jobs, seats, nodes, queues and curves as rows."""
