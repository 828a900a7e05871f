"""The receiver of webhooks, the client that calls over HTTP, and the bare services that Carillon is measured beside."""
