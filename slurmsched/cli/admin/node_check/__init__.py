"""``slurmsched node-check``: a GPU node, what our programs need there, and what they do."""
