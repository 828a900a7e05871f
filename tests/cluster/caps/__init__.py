"""Caps under load: a load that wants more than each cap gives, and a sampler of what is in flight."""
