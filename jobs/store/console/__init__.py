"""What the console's own lists ask of the store: bounded looks along an index, lane by lane and tenant by tenant."""
