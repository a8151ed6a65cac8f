"""Studies made of many simulations: what-if, the Pareto front, tuning."""
