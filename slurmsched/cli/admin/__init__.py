"""Commands for the administration of a site."""
