"""The attacks of a hostile tenant, each beside the same attack against an open door."""
