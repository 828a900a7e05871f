"""Job types that tenants declare over the API, for workers in any language (docs/pull-workers.md)."""
