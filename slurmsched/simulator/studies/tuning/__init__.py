"""The tuner: which settings would have served a site's own last weeks better (Lucid section 3.6)."""
