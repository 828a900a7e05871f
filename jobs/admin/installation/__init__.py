"""The pages that concern all tenants: leases, dispatch, job types, targets."""
