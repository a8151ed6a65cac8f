"""Commands of the research: studies and searches, registered by entry points."""
