"""Foresight: a live state played forward, for eta, what-if and auto, and the processes that do it beside cycles."""
