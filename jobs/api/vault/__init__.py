"""What a tenant entrusts to Carillon, over the API: secrets, and what its webhooks are signed with. Write-only."""
