"""Orderings that no daemon needs: those of other papers, to compare with."""
