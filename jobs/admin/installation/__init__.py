"""What holds for all tenants: leases, dispatch, job types, targets."""
