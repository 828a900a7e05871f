"""The receiver of webhooks, and the bare loop that Carillon's deliveries are measured beside."""
