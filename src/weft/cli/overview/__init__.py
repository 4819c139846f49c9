"""Commands that show how a world is: queues, nodes, load, health. They change nothing."""
