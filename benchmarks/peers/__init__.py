"""Those Carillon is measured beside, as their users would run them: queues, schedulers, and a bare HTTP loop."""
