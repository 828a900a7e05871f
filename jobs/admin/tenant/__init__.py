"""The console's page and list of tenants: how each stands with its limits, why it is late, and what to do."""
