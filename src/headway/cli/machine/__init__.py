"""The manager and its machine: what it can and cannot do, the systemd unit, certificates, tokens. Imports `live` where it is used."""
