"""Benches of how much is done in a second: no-ops, webhooks, and the computation of fire times."""
