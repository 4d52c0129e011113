"""From recorded steps to advantages."""
