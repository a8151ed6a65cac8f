"""A model of slurmctld: its configuration, priorities, main loop and backfill."""
