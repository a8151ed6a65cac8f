"""The week on a page: what jobs held, used and waited for, by pure sums over rows of the database."""
