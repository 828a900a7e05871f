"""Caps under load: a load that wants more than each cap gives, and a sampler of the triggers in flight."""

#: The cap of the type ``caps.narrow``, over all tenants. Not in ``handlers``, which the test's own process must not
#: load.
NARROW_MAX_IN_FLIGHT = 5
