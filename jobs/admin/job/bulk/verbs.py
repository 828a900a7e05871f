"""What can be done to many jobs at once, in words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """``name`` is the operation's. ``asks``: what it will do. ``grave``: it cannot be undone."""

    name: str
    title: str
    icon: str
    asks: str
    permission: str = "jobs.change_job"
    grave: bool = False


VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            "pause",
            "Pause",
            "pause",
            "Nothing more of them starts until they are resumed; what runs finishes.",
        ),
        Verb("resume", "Resume", "resume", "They go on from now; what fell due meanwhile is skipped."),
        Verb("edit", "Change", "edit", "Each gets a new version, with this priority and these labels."),
        Verb(
            "cancel",
            "End",
            "cancel",
            "They end for good: what waits is cancelled, what runs is asked to stop. This cannot be undone.",
            grave=True,
        ),
        Verb(
            "delete",
            "Delete",
            "delete",
            "They are cancelled and taken out of sight; their names are free again and their history stays.",
            permission="jobs.delete_job",
            grave=True,
        ),
    )
}
