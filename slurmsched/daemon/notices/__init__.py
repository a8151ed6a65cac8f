"""Notices to owners of jobs and to admins: what happened, who hears of it, how it is worded and sent."""
