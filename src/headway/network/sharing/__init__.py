"""What jobs send over which links, and what sharing those links costs them. Imports `network.fabric` and `core.compiler`."""
