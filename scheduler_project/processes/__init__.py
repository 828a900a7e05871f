"""The processes of ``manage.py up``: a supervisor and its children, which together are Carillon."""
