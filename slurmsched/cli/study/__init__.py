"""Commands that run simulations."""
