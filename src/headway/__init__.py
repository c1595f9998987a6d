"""Headway: when, where and how distributed training jobs run on a shared GPU cluster."""

__version__ = "0.1.0"
