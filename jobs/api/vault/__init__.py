"""A tenant's secrets, and the secret that signs its webhooks, over the API. Write-only."""
