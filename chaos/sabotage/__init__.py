"""Promises broken on purpose, to see that the judge catches each: the suite itself can fail.

``catalogue`` says what is broken and how the judge must catch it. ``act`` breaks it, only in the processes of a stage:
they import it as a module of handlers, so the engine has no switch for it. ``rehearsal`` runs it and compares.
"""
