"""What an operator says to a manager and hears from it: house rules, measures, and the webhook.

`webhook` imports the manager; the others import the job file only.
"""
