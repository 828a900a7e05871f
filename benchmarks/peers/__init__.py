"""Those Carillon is measured beside, as their users would run them."""
