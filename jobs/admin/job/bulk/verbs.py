"""The acts on many jobs at once, in words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """``name`` is the operation's. ``asks``: a sentence on its effect. ``grave``: it cannot be undone."""

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
            "No further firings start until the jobs are resumed; running attempts finish.",
        ),
        Verb(
            "resume",
            "Resume",
            "resume",
            "They go on from now; firings that were due during the pause are skipped.",
        ),
        Verb("edit", "Change", "edit", "Each gets a new version, with this priority and these labels."),
        Verb(
            "cancel",
            "End",
            "cancel",
            "They end for good: waiting triggers are cancelled, running ones are asked to stop. This cannot "
            "be undone.",
            grave=True,
        ),
        Verb(
            "delete",
            "Delete",
            "delete",
            "They are cancelled and removed from all lists; their names are free again and their history "
            "stays.",
            permission="jobs.delete_job",
            grave=True,
        ),
    )
}
