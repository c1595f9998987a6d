"""How: collective schedules on networks of several dimensions."""
