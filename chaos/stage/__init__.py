"""Where a run takes place: servers, processes, a proxy on each link, and the receiver."""

#: Leases of a few seconds, so that another worker gets the triggers that a fault took while the fault lasts.
HURRIED = {"CARILLON_WORKER_LEASE_SECONDS": "4", "CARILLON_DISPATCH_DEADLINE_SECONDS": "2"}
