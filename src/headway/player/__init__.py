"""A finished simulation behind the API of a manager, so that the dashboard can play it: the same questions, as of any time of the run.

Imports `live` (the shape of answers, and the gate in front of them), `sim`, `network`, `core`, `client` and `web`.
"""
