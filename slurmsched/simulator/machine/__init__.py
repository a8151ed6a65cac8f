"""The event loop for nodes of any kind, driven by a modelled slurmctld or by a policy directly."""
