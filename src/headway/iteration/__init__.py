"""How long one iteration of a job takes: its computation and what of its communication does not hide behind it. Imports `collectives` and
below.

Pure: shapes, bandwidths and models in, seconds out. `plans.py` has the communication on a job's own small network, `models.py` what is
known of models, `fit.py` the same from measurements.
"""
