"""One module per version; each states its tables in full, since tables.py moves on."""
