"""Remember: outcomes, decisions and intents in a database."""
