"""Signing in to the console beyond the password: off, unless the settings say otherwise (ADR 29).

``password`` holds a sign-in whose operator has a second factor (``held``) until the page of ``code`` is given a code.
``gate`` lets no operator past without the code, and ``own`` is the page on which operators set up their second factor.
``oidc`` signs in by an identity provider.
"""
