"""The results of a replay: figures, harm to users, and a page that shows them."""
