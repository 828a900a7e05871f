"""What a hostile tenant tries, each beside the same thing against an open door."""
