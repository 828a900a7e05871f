"""Reads of the console's own lists: bounded looks along an index, lane by lane and tenant by tenant."""
