"""The peers of Carillon, run as their users would run them: queues, schedulers, and a bare HTTP loop."""
