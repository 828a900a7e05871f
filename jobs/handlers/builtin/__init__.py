"""The job types Carillon brings along, written as a team would write its own: copy one to begin."""
