"""The form of a job as one types: its inputs, what they come to, a test send, and what to do about a conflict."""
