"""GPU sharing: pair jobs, place them, and end unstable pairs."""
