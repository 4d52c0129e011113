"""Foreign engines that this package plugs into."""
