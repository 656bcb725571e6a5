"""Deletes long-lived changelogs beyond their retention."""
