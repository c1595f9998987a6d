"""A slice written down: issued, checked by a verifier that shares no code with the allocator, and turned into routes.

Imports the other rooms of `network`.
"""
