"""The tuner: settings that would have improved a site's own last weeks (Lucid section 3.6)."""
