"""What jobs should ask for, by what runs of their kind needed."""
