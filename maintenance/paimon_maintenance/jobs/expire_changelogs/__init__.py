"""Long-lived changelogs beyond their retention go."""
