"""Wall-clock times as instants, and in words: how a schedule behaves where clocks change (DESIGN §9).

``clock_changes`` finds the changes of a zone, ``occurrences`` maps wall-clock times to instants, ``plans`` shares the
computation among jobs, ``timetable`` counts instants without walking them, ``notes`` and ``words`` explain a schedule
to people. All of it is pure: the caller brings the time.
"""
