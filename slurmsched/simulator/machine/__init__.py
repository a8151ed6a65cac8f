"""The general machine: nodes of any kind in columns, and what decides: a modelled slurmctld, or plans as they are."""
