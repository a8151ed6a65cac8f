"""Outcomes, decisions and intents in a database."""
