"""Caps under load: a load that wants more than each cap gives, and a sampler of what is in flight."""

#: Of the type ``caps.narrow``, over all tenants. Not in ``handlers``, which the test's own process is not to load.
NARROW_MAX_IN_FLIGHT = 5
