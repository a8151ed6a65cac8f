"""Built-in orderings: which pending job runs sooner."""
