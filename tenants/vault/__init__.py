"""Tenants' secrets: values for their webhooks' headers and URLs, and the secrets that sign the webhooks.

``sealing`` is the cryptography, ``secrets`` and ``signing`` act on the two kinds, ``rekey`` moves both to another key.
Nothing here is ever logged, and nothing but the worker that sends a request reads a value back.
"""
