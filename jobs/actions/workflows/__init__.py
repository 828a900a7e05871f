"""What people do to workflows and their runs (ADR 32). Each may raise ``NotFound``."""
