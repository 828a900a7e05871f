"""The fault suite: a real cluster, a seeded load, faults, and a judge outside (docs/chaos.md)."""
