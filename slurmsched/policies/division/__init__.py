"""Division: how the GPUs of one pool are divided among elastic applications."""
