"""From schedules to triggers: on time (``materializer``) and afterwards (``catchup``, at the pace of ``pace``)."""
