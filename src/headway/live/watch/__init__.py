"""What a person who watches the cluster sees: the GPU map, the queue, how it goes over time, the story of a job, the network.

Imports the other rooms of `live` but `http`. The answers are plain data, so that a recording can give the same.
"""
