"""Charts over time: a page of them, and a fragment for other pages (``templates/admin/charts/include.html``)."""
