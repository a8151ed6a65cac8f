"""Values for jobs, nodes, forecasts and actions; no input or output."""
