"""What of an agent's tool calls is seen, by which way, and which lines show the rest."""
