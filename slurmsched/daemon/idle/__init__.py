"""GPUs that jobs hold and that no process uses: what nodes say of them, and what they cost others."""
