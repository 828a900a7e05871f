"""Drills: each playbook's fault on a real cluster, watched by Prometheus with the rules of ``deploy/monitoring``.

``python -m chaos drill [NAME …]``. A drill passes when its alert fires and names the page, and when the page's steps,
each typed as the page has it, reach the end that the page names.
"""

from chaos.drill.drills import DRILLS
from chaos.drill.exercise import exercise, table

__all__ = ["DRILLS", "exercise", "table"]
