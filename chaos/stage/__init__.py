"""Where a run takes place: servers, processes, a proxy on each link, and the receiver."""
