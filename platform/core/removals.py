"""Removing a folder whatever is in it, as the agents in pods do."""

from nearline.content.removals import remove_files, remove_folder

__all__ = ["remove_files", "remove_folder"]
