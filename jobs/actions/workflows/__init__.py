"""Actions on workflows and their runs (ADR 32). Each may raise ``NotFound``."""
