"""Removing a folder whatever is in it, as the agents in pods do."""

from nearline.content.removals import remove_folder

__all__ = ["remove_folder"]
