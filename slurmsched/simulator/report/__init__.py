"""What a replay was like: figures, harm, and a page that shows them."""
