"""Routes that enforce a certificate on real switches: tables for every device, and the text that each kind of switch
takes.

Imports the other packages of `network`, and `io`.
"""
