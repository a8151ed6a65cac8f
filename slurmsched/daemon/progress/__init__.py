"""Progress that running jobs report of themselves, and the answers to them."""
