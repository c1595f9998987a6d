"""Operator settings and monitoring: site rules, measurements, and the webhook.

Imports the job file; `webhook` also the manager.
"""
