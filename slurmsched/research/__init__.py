"""Research: systems and studies that no daemon needs, run by simulate and by commands of their own."""
