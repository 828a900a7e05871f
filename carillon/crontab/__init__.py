"""Crontabs, of users and of ``/etc/cron.d``, to job definitions, with each doubtful line explained."""
