"""What slurmsched decided and requested, and each job's history of it, in the database."""
