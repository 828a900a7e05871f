"""Promises broken on purpose, to see that the judge catches each: the suite itself can fail.

``catalogue`` says what is broken and how it ought to be caught. ``act`` breaks it, in the processes of a stage alone:
they import it as a module of handlers, so the engine has no switch for it. ``rehearsal`` runs it and compares.
"""
