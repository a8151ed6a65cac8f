"""Records of jobs from the nodes, received and checked."""
