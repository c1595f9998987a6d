"""Certificates of slices: issued, and checked by a verifier that shares no code with the allocator.

Imports the other packages of `network`.
"""
