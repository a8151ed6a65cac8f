"""What is: jobs, nodes, forecasts and actions as values; no input or output."""
