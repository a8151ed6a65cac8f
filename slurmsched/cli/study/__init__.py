"""Commands that simulate."""
