"""The processes of ``manage.py up``: a supervisor, and the children that Carillon consists of."""
