"""What recorded jobs would have done under another policy.

Imports `live/state`, `live/store` and `sim`.
"""
