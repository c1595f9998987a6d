"""Messages to other programs: the webhook.

Imports `manager`.
"""
