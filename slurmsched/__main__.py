"""``python -m slurmsched``."""

from .interpreter import forget_directory

forget_directory()

from .cli import main  # noqa: E402  after that

main(prog_name="slurmsched")
