"""``python -m slurmsched``."""

from .cli import main

main(prog_name="slurmsched")
