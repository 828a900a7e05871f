"""What tenants entrust to Carillon: values for their webhooks' headers and URLs, and what the webhooks are signed with.

``sealing`` is the cryptography, ``secrets`` and ``signing`` what is done with the two kinds, ``rekey`` moves all of it
to another key. Nothing here is ever logged, and nothing but the worker that sends a request reads a value back.
"""
