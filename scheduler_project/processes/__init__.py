"""What ``manage.py up`` runs: a supervisor of child processes, and the children Carillon consists of."""
