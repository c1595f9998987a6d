"""What an operator says to a manager and hears from it: house rules, measures, and the webhook.

Imports the job file; `webhook` also the manager.
"""
