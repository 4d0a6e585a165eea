"""How attributes of a host framework are replaced while the device is loaded; each front end has a list of its own."""
