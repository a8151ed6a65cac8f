"""Records in the database: one module for each kind of record."""
