"""The form of a job while the user types: its inputs, their preview, a test send, and what to do about a conflict."""
